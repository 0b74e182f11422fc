package workflow_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/feature/workflow"
)

// oneStep is the text of a workflow whose only step is of a type with a config, in YAML's flow style.
func oneStep(of, config string) string {
	return "name: w\nsteps:\n  - name: a\n    type: " + of + "\n    config: " + config + "\n"
}

func argument(value string) string {
	return oneStep("tool_call", `{tool: s.t, arguments: {x: `+value+`}}`)
}

// many returns n lines, or other texts, that contain their number.
func many(n int, format string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}

// blockLists nests n lists by indentation.
func blockLists(n int) string {
	var b strings.Builder
	b.WriteString("name: w\nsteps:\n")
	for i := range n {
		b.WriteString(strings.Repeat(" ", i+2) + "-\n")
	}
	return b.String()
}

// shapes are workflows whose size grows with n, most of them wrong.
var shapes = map[string]func(n int) string{
	"nested lists":    func(n int) string { return argument(strings.Repeat("[", n) + strings.Repeat("]", n)) },
	"nested mappings": func(n int) string { return argument(strings.Repeat("{a: ", n) + "1" + strings.Repeat("}", n)) },
	"unclosed lists":  func(n int) string { return argument(strings.Repeat("[", n)) },
	"nested JSON": func(n int) string {
		return `{"name":"w","steps":` + strings.Repeat("[", n) + strings.Repeat("]", n) + "}"
	},
	"lists on one line": func(n int) string { return "name: w\nsteps:\n  " + strings.Repeat("- ", n) + "x\n" },
	"lists by indent":   func(n int) string { return blockLists(n / 40) },
	"keys":              func(n int) string { return "name: w\n" + many(n, "k%d: 1\n") },
	"keys of arguments": func(n int) string { return argument("{" + many(n, "k%d: 1, ") + "}") },
	"documents":         func(n int) string { return strings.Repeat("---\n", n) + "name: w\n" },
	"items":             func(n int) string { return argument("[" + many(n, "%d, ") + "]") },
	"deep items": func(n int) string {
		return argument(strings.Repeat("[", 40) + many(n, "%d, ") + strings.Repeat("]", 40))
	},
	"lines of code": func(n int) string { return oneStep("code_execution", "\n      code: |\n"+many(n, "        x = %d\n")) },
	"expressions":   func(n int) string { return argument(`"` + strings.Repeat("${{ 1 }} ", n) + `"`) },
	"expressions, lines": func(n int) string {
		return oneStep("tool_call", "\n      tool: s.t\n      arguments:\n        x: |\n"+strings.Repeat("          ${{ 1 }}\n", n))
	},
	"nested f-strings": func(n int) string {
		return argument("'${{ " + strings.Repeat(`f"{`, n) + "1" + strings.Repeat(`}"`, n) + " }}'")
	},
	"unknown references":  func(n int) string { return argument("[" + many(n, `"${{ steps.b%d.result }}", `) + "]") },
	"references to steps": referencesToSteps,
	"unknown depends_on": func(n int) string {
		return "name: w\nsteps:\n" + many(n/20, "  - {name: s%d, type: code_execution, config: {code: \"return 1\"}}\n") +
			"  - {name: z, type: code_execution, config: {code: \"return 1\"}, depends_on: [" + many(n, "x%d, ") + "]}\n"
	},
	"calls of a workflow": func(n int) string {
		return "name: w\nsteps:\n" + many(n/20, "  - {name: s%d, type: workflow, config: {workflow: large, inputs: {a: 1}}}\n")
	},
}

// referencesToSteps has n references to n/20 steps: checks of each pair are n*n.
func referencesToSteps(n int) string {
	return "name: w\nsteps:\n" + many(n/20, "  - {name: long_name_of_a_step_%d, type: code_execution, config: {code: \"return 1\"}}\n") +
		"  - {name: z, type: tool_call, config: {tool: s.t, arguments: {x: [" +
		strings.Repeat(`"${{ steps.long_name_of_a_step_0.result }}", `, n) + "]}}}\n"
}

func large(string) (*workflow.Workflow, []workflow.Finding, []string) {
	w, found := workflow.Parse("large", []byte("name: large\ninputs: {properties: {a: {description: "+strings.Repeat("a ",
		10_000)+"}}}\nsteps:\n  - {name: b, type: code_execution, config: {code: return 1}}\n"))
	return w, found, nil
}

// allocated returns the bytes that work allocates.
func allocated(work func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	work()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func TestWorkGrowsWithTheInput(t *testing.T) {
	const least = 1 << 20 // bytes: below it, constants count more than growth
	for name, shape := range shapes {
		t.Run(name, func(t *testing.T) {
			var used []uint64
			for _, n := range []int{1000, 2000, 4000} {
				text := shape(n)
				used = append(used, allocated(func() {
					if w, found := workflow.Parse("w", []byte(text)); len(found) == 0 {
						workflow.Compile(w, workflow.Library{Workflow: large})
					}
				}))
			}
			if used[2] > least && used[2] > 3*used[1] {
				t.Errorf("4000, 2000 and 1000 of them allocate %d, %d and %d bytes", used[2], used[1], used[0])
			}
		})
	}
}

func TestDepthIsLimited(t *testing.T) {
	const outside = 5 // the workflow, steps, the step, config, arguments
	list := func(depth int) string { return argument(strings.Repeat("[", depth) + "1" + strings.Repeat("]", depth)) }
	json := func(depth int) string {
		return `{"name": "w", "steps": [{"name": "a", "type": "tool_call", "config": {"tool": "s.t", "arguments": {"x": ` +
			strings.Repeat(`{"a": `, depth) + "1" + strings.Repeat("}", depth) + "}}}]}"
	}
	for _, source := range []func(int) string{list, json} {
		if _, found := workflow.Parse("w", []byte(source(64-outside))); len(found) > 0 {
			t.Errorf("64 levels: %s", found[0])
		}
		for _, depth := range []int{65 - outside, 2000, 100_000} {
			w, found := workflow.Parse("w", []byte(source(depth)))
			if w != nil || len(found) != 1 || found[0].Message != "lists and mappings are nested more than 64 deep" {
				t.Errorf("%d levels: %v", depth, found)
			}
		}
	}
}

// An alias in a workflow is an error, and is not followed.
func TestAliasesAreNotExpanded(t *testing.T) {
	source := "a: &a [x, x, x, x, x, x, x, x, x]\n"
	for c := 'b'; c <= 'z'; c++ {
		source += fmt.Sprintf("%c: &%[1]c [%s]\n", c, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*%c, ", c-1), 9), ", "))
	}
	for _, text := range []string{source, argument("&x [*x]"), argument("{<<: {a: 1}}")} {
		used := allocated(func() {
			if w, found := workflow.Parse("w", []byte(text)); w != nil || len(found) == 0 {
				t.Errorf("%q is a workflow", text)
			}
		})
		if used > 1<<20 {
			t.Errorf("%d bytes of text allocate %d", len(text), used)
		}
	}
}

func TestLongCodeIsRefused(t *testing.T) {
	w, found := workflow.Parse("w", []byte(argument(strings.Repeat("[", 40)+many(100_000, "%d, ")+strings.Repeat("]", 40))))
	if len(found) > 0 {
		t.Fatal(found)
	}
	p, found := workflow.Compile(w, workflow.Library{})
	if p != nil || len(found) != 1 || !strings.Contains(found[0].Message, "more than the 1048576 bytes that are allowed") {
		t.Errorf("%v", found)
	}
}

// No character of a text is changed to find question marks, whether it is written or escaped.
func TestPrivateCharactersAreKept(t *testing.T) {
	every := ""
	for r := '\ue000'; r <= '\uf8ff'; r++ {
		every += string(r)
	}
	for source, want := range map[string]string{
		"[Sure?, a\uf8ff?]":              `["Sure?", "a` + "\uf8ff" + `?"`,
		"a\uf8ff":                        "\"a\uf8ff\"",
		"[Sure?, \"\\uf8ff?\", a\uf8fe]": "[\"Sure?\", \"\uf8ff?\", \"a\uf8fe\"",
		"[Sure?, \"\\U0000F8FF \\\\uF8FE \\\\\\uf8fd?\"]": "[\"Sure?\", \"\uf8ff \\\\uF8FE \\\\\uf8fd?\"",
		`["` + every + `?"]`:                              "[\"" + every + "?\"",
	} {
		w, found := workflow.Parse("w", []byte(argument(source)))
		if len(found) > 0 {
			t.Errorf("%.100q: %v", source, found)
			continue
		}
		p, found := workflow.Compile(w, workflow.Library{})
		if len(found) > 0 {
			t.Errorf("%.100q: %v", source, found)
			continue
		}
		code := strings.ReplaceAll(strings.Join(strings.Fields(p.Code), " "), "[ ", "[")
		for r := '\ue000'; r <= '\uf8ff'; r++ { // as Python escapes them
			want = strings.ReplaceAll(want, string(r), fmt.Sprintf("\\u%04x", r))
		}
		if !strings.Contains(code, want) {
			t.Errorf("%.100q: %.2000q", source, code)
		}
	}
}

// Plain texts and numbers have the values of YAML 1.2.
func TestPlainScalars(t *testing.T) {
	w, found := workflow.Parse("w", []byte(argument(`[Sure?, a ? b, "?", 08, 010x, 123456789012345678901234567890, 1.50, .5, 0x10, `+
		`2026-01-01, yes, ~, True]`)))
	if len(found) > 0 {
		t.Fatal(found)
	}
	p, found := workflow.Compile(w, workflow.Library{})
	if len(found) > 0 {
		t.Fatal(found)
	}
	code := strings.Join(strings.Fields(p.Code), " ")
	if want := `["Sure?", "a ? b", "?", "08", "010x", 123456789012345678901234567890, 1.50, 0.5, 16, "2026-01-01", "yes", None, True,`; !strings.Contains(strings.ReplaceAll(code, "[ ", "["), want) {
		t.Errorf("%s", code)
	}
}
