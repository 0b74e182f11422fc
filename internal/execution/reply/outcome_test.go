package reply

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
)

// Outcomes that the fake backend does not produce.
func TestOutcomesAreExplained(t *testing.T) {
	g := Limits{
		Timeout: 300 * time.Second, MaxTimeout: 300 * time.Second, MaxMemoryMB: 500,
		Sandbox: sandbox.Limits{MemoryBytes: 500 << 20, OpenFiles: 256, ResultBytes: 64 << 20},
	}
	raised := func(kind, err, limit string) sandbox.Outcome {
		return sandbox.Outcome{Status: sandbox.Raised, ErrorType: kind, Error: err, Limit: limit,
			Usage: sandbox.Usage{MemoryPeak: 498 << 20}}
	}
	for _, tc := range []struct {
		name  string
		out   sandbox.Outcome
		cause error
		want  Result
	}{
		{"a MemoryError", raised("MemoryError", "the code ran out of memory", "memory"), nil,
			Result{Status: sandbox.Raised, Failure: Failure{Source: FromCode, Limit: "memory", ErrorType: "MemoryError",
				Error: "Memory limit of 500 MB reached (498 MB were in use when more was asked for)",
				Hint: "process the data in pieces (read_csv with chunksize, or duckdb, which need not load a file), or ask the operator " +
					"to raise sandbox.max_memory_mb"}}},
		{"an array that does not fit", raised("_ArrayMemoryError", "the code ran out of memory: Unable to allocate 7.45 GiB for an array",
			"memory"), nil,
			Result{Status: sandbox.Raised, Failure: Failure{Source: FromCode, Limit: "memory", ErrorType: "_ArrayMemoryError",
				Error: "the code ran out of memory: Unable to allocate 7.45 GiB for an array",
				Hint: "Memory limit of 500 MB reached (498 MB were in use when more was asked for); process the data in pieces " +
					"(read_csv with chunksize, or duckdb, which need not load a file), or ask the operator to raise sandbox.max_memory_mb"}}},
		{"plots without matplotlib", raised("ImportError", "matplotlib is required for plotting when the default backend \"matplotlib\" "+
			"is selected.", ""), nil,
			Result{Status: sandbox.Raised, Failure: Failure{Source: FromCode, ErrorType: "ImportError",
				Error: "matplotlib is required for plotting when the default backend \"matplotlib\" is selected.",
				Hint: "return the numbers as a table instead, or ask the operator to run `sandpiper packages add --preset data`; code " +
					"cannot install packages"}}},
		{"an optional package of pandas", raised("ImportError",
			"`Import openpyxl` failed.  Use pip or conda to install the openpyxl package.", ""), nil,
			Result{Status: sandbox.Raised, Failure: Failure{Source: FromCode, ErrorType: "ImportError",
				Error: "`Import openpyxl` failed.  Use pip or conda to install the openpyxl package.",
				Hint:  "avoid it, or ask the operator to run `sandpiper packages add openpyxl`; code cannot install packages"}}},
		{"an exception caused by a limit keeps its message", raised("OSError", "[Errno 24] Too many open files", "open_files"), nil,
			Result{Status: sandbox.Raised, Failure: Failure{Source: FromCode, Limit: "open_files", ErrorType: "OSError",
				Error: "[Errno 24] Too many open files",
				Hint:  "Limit of 256 on open files reached; close files after use, for example with a with block"}}},
		{"the message of a too large result is complete", raised("ResultTooLarge", "the result is 70 MB", "result_size"), nil,
			Result{Status: sandbox.Raised, Failure: Failure{Source: FromCode, Limit: "result_size", ErrorType: "ResultTooLarge",
				Error: "the result is 70 MB"}}},
		{"a package of a preset", raised("ModuleNotFoundError", "No module named 'pandas'", ""), nil,
			Result{Status: sandbox.Raised, Failure: Failure{Source: FromCode, ErrorType: "ModuleNotFoundError",
				Error: "No module named 'pandas'",
				Hint: "avoid it, or ask the operator to run `sandpiper packages add --preset data`, which adds pandas, numpy, " +
					"matplotlib and others; code cannot install packages"}}},
		{"a package that is not there", raised("ModuleNotFoundError", "No module named 'polars'", ""), nil,
			Result{Status: sandbox.Raised, Failure: Failure{Source: FromCode, ErrorType: "ModuleNotFoundError",
				Error: "No module named 'polars'",
				Hint: "avoid it, or ask the operator to run `sandpiper packages add` or extend the tenant's package layer; code cannot " +
					"install packages"}}},
		{"a module of the library that is not there", raised("ModuleNotFoundError",
			"No module named 'tkinter', a module of the standard library that is not installed", ""), nil,
			Result{Status: sandbox.Raised, Failure: Failure{Source: FromCode, ErrorType: "ModuleNotFoundError",
				Error: "No module named 'tkinter', a module of the standard library that is not installed",
				Hint:  "avoid it: this Python does not include it, and no package provides it"}}},
		{"a module of the second seed", raised("ModuleNotFoundError", "No module named 'client.tool_selector'", ""), nil,
			Result{Status: sandbox.Raised, Failure: Failure{Source: FromCode, ErrorType: "ModuleNotFoundError",
				Error: "No module named 'client.tool_selector'", Hint: "search_tools(query) finds tools"}}},
		{"a module of the second seed by name", raised("ImportError", "cannot import name 'tool_selector' from 'client' (unknown location)",
			""), nil,
			Result{Status: sandbox.Raised, Failure: Failure{Source: FromCode, ErrorType: "ImportError",
				Error: "cannot import name 'tool_selector' from 'client' (unknown location)", Hint: "search_tools(query) finds tools"}}},
		{"another name that is missing", raised("ImportError", "cannot import name 'x' from 'json' (unknown location)", ""), nil,
			Result{Status: sandbox.Raised, Failure: Failure{Source: FromCode, ErrorType: "ImportError",
				Error: "cannot import name 'x' from 'json' (unknown location)"}}},
		{"an exception with a name of ours", raised("approval_required", "run `sandpiper approvals approve apr_1`", ""), nil,
			Result{Status: sandbox.Raised, Failure: Failure{Source: FromCode, ErrorType: "__main__.approval_required",
				Error: "run `sandpiper approvals approve apr_1`"}}},
		{"an exception called timeout", raised("timeout", "Execution timed out after 300 seconds", ""), nil,
			Result{Status: sandbox.Raised, Failure: Failure{Source: FromCode, ErrorType: "__main__.timeout",
				Error: "Execution timed out after 300 seconds"}}},
		{"refused with a name of ours", sandbox.Outcome{Status: sandbox.Refused, Error: "no", ErrorType: "approval_required"}, nil,
			Result{Status: sandbox.Refused, Failure: Failure{Source: FromCode, ErrorType: "__main__.approval_required", Error: "no"}}},
		{"a server that is not there", raised("ModuleNotFoundError", "No module named 'servers.github'", ""), nil,
			Result{Status: sandbox.Raised, Failure: Failure{Source: FromCode, ErrorType: "ModuleNotFoundError",
				Error: "No module named 'servers.github'",
				Hint: "no connected server has this module: search_tools finds those that exist; the operator can add servers to " +
					"servers: in the configuration"}}},
		{"no network", raised("URLError", "<urlopen error [Errno -2] no network here: use a tool of a server (search_tools finds one)>",
			""), nil,
			Result{Status: sandbox.Raised, Failure: Failure{Source: FromCode, ErrorType: "URLError",
				Error: "<urlopen error [Errno -2] no network here: use a tool of a server (search_tools finds one)>",
				Hint: "network access is off: use the tools of connected servers, which search_tools finds, or ask the operator to " +
					"allow hosts with network.allow in the configuration"}}},
		{"fetch without a network", raised("NameError", "name 'fetch' is not defined", ""), nil,
			Result{Status: sandbox.Raised, Failure: Failure{Source: FromCode, ErrorType: "NameError", Error: "name 'fetch' is not defined",
				Hint: "network access is off: use the tools of connected servers, which search_tools finds, or ask the operator to allow " +
					"hosts with network.allow in the configuration"}}},
		{"a package for a network", raised("ModuleNotFoundError", "No module named 'requests'", ""), nil,
			Result{Status: sandbox.Raised, Failure: Failure{Source: FromCode, ErrorType: "ModuleNotFoundError",
				Error: "No module named 'requests'",
				Hint: "this package cannot work, since network access is off: use the tools of connected servers, which search_tools " +
					"finds, or ask the operator to allow hosts with network.allow in the configuration"}}},
		{"the longest timeout", sandbox.Outcome{Status: sandbox.TimedOut}, sandbox.ErrTimeout,
			Result{Status: sandbox.TimedOut, Failure: Failure{ErrorType: "timeout", Error: "Execution timed out after 300 seconds",
				Hint: "300 seconds is the maximum, unless the operator raises sandbox.max_timeout: do less in one call and keep " +
					"intermediate results in /workspace"}}},
		{"a timeout that a backend calls cancelled", sandbox.Outcome{Status: sandbox.Cancelled}, sandbox.ErrTimeout,
			Result{Status: sandbox.TimedOut, Failure: Failure{ErrorType: "timeout", Error: "Execution timed out after 300 seconds",
				Hint: "300 seconds is the maximum, unless the operator raises sandbox.max_timeout: do less in one call and keep intermediate results in /workspace"}}},
		{"completed just before its end", sandbox.Outcome{Status: sandbox.Completed}, sandbox.ErrTimeout,
			Result{Status: sandbox.Completed}},
		{"refused with a word", sandbox.Outcome{Status: sandbox.Refused, Error: "no", ErrorType: "RestrictedError"}, nil,
			Result{Status: sandbox.Refused, Failure: Failure{Source: FromCode, ErrorType: "RestrictedError", Error: "no"}}},
		{"refused", sandbox.Outcome{Status: sandbox.Refused, Error: "no"}, nil,
			Result{Status: sandbox.Refused, Failure: Failure{Source: FromCode, ErrorType: "refused", Error: "no"}}},
		{"an unknown status", sandbox.Outcome{Status: "odd"}, nil,
			Result{Status: sandbox.Crashed, Failure: Failure{ErrorType: "crashed", Error: "The Python process died: the reason is unknown",
				Hint: "files in /workspace are intact; run it again, and if it dies again, change what calls into C (ctypes, deep " +
					"recursion) or uses much memory"}}},
		{"an unknown limit", sandbox.Outcome{Status: sandbox.OverLimit, Limit: "odd"}, nil,
			Result{Status: sandbox.OverLimit, Failure: Failure{Limit: "odd", ErrorType: "odd", Error: "A limit was reached",
				Hint: "do less in one call"}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var got Result
			g.Explain(&got, tc.out, tc.cause)
			if d := cmp.Diff(tc.want, got); d != "" {
				t.Error(d)
			}
		})
	}
}
