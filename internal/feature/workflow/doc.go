// Package workflow reads workflows, files that describe steps and their order, and compiles
// them to Python that an agent could have written.
//
// There is no engine here: package execution runs the compiled code, checks, journals,
// suspends and resumes it. A started workflow therefore does not depend on its file any more.
//
//	Parse reads a file, with the position of each value.
//	Compile finds what can be found in the file alone, such as cycles and loops without a bound. It returns
//	Python, and for each of its lines the position in the file.
//	Examine checks compiled code in a sandbox: syntax, references, names, tools and their arguments.
//
// A template is a text with ${{ expression }}. The expression is Python, and a part of the compiled
// code as it is: steps.NAME.result and inputs.NAME are the values of steps and inputs, whose keys are
// attributes, by the objects of workflow.py. The package itself evaluates no expression, and everything is
// safe for concurrent use.
package workflow
