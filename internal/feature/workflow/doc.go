// Package workflow reads workflows, files that describe steps and their order, and compiles
// them to Python that an agent could have written.
//
// There is no engine here: package execution runs the compiled code, checks, journals,
// suspends and resumes it. A started workflow therefore does not depend on its file any more.
//
//	Parse reads a file, with the position of each value.
//	Workflow.Check finds what can be found in the file alone: references, cycles, loops
//	without a bound, unreachable steps.
//	Compile returns Python, and for each of its lines the position in the file.
//	Examine checks compiled code in a sandbox: syntax, names, tools and their arguments.
//
// A template is a text with ${{ expression }}. The expression is Python; in it, steps.NAME.result
// and inputs.NAME are the values of steps and inputs, and an attribute of such a value that is
// not called is a key. The package itself evaluates no expression. It only finds references
// in them, and everything is safe for concurrent use.
package workflow
