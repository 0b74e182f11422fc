//go:build linux

package worker_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/worker"
)

// sessions are programs that run one after the other in one interpreter.
var sessions = map[string][]program{
	"variables, imports and functions persist": {
		{code: "import csv\nx = 5\ndef f(): return x"},
		{code: "x += 1\n[f(), csv.__name__]", want: value(`[6,"csv"]`)},
	},
	"an old result is not the new one": {
		{code: "result = 1", want: value(`1`)},
		{code: "y = 2"},
		{code: "3", want: value(`3`)},
		{code: "result + 1", want: value(`2`)},
		{code: "result = 1", want: value(`1`)},
		{code: "def f(): return result\nf()", want: value(`1`)},
		{code: "result", want: value(`1`)},
		{code: "1/0", want: raised("ZeroDivisionError", "division")},
		{code: "result", want: value(`1`)},
	},
	"variables replace older ones": {
		{code: "x", vars: `{"x": 1}`, want: value(`1`)},
		{code: "x", vars: `{"x": 2}`, want: value(`2`)},
		{code: "x", want: value(`2`)},
	},
	"a traceback shows the lines of the call that wrote them": {
		{code: "def f(): return 1/0"},
		{code: "\n\nf()", want: raised("ZeroDivisionError", "division", `File "<code 2>", line 3`, `File "<code>", line 1, in f`,
			"def f(): return 1/0")},
	},
	"life goes on after every exception": {
		{code: "import sys; sys.exit(4)", want: raised("SystemExit", "status 4")},
		{code: limitMemory + "x = []\nwhile True: x.append(bytearray(10**6))",
			want: limited("MemoryError", "the code ran out of memory", sandbox.LimitMemory)},
		{code: "del x\n1", want: value(`1`)},
		{code: "def f(): return f()\nf()", want: raised("RecursionError", "maximum recursion")},
		{code: "x = (", want: raised("SyntaxError", "never closed")},
		{code: "'x' * (2 << 20)", want: limited("ResultTooLarge", "2097154 bytes", sandbox.LimitResult)},
		{code: "2", want: value(`2`)},
	},
	"a thread left by a call does not speak in the next": {
		{code: "import threading\ngo = threading.Event(); done = threading.Event()\ndef f():\n    go.wait()\n    print('late')\n    try: " +
			"list_skills()\n    except RuntimeError as e: told.append(str(e))\n    done.set()\ntold = " +
			"[]\nthreading.Thread(target=f).start()"},
		{code: "go.set(); done.wait()\nprint('mine')\ntold", want: want{
			Result: `["list_skills: the execution that started this thread has ended"]`, Output: []string{"mine"}}},
	},
	"a thread that such a thread starts is silent too": {
		{code: "import threading\ngo = threading.Event(); done = threading.Event()\ntold = []\ndef last():\n    print('late')\n    try: " +
			"list_skills()\n    except RuntimeError as e: told.append(str(e))\n    done.set()\ndef again(n):\n    print('late')\n    " +
			"threading.Timer(0, again if n else last, [n - 1] if n else []).start()\ndef f():\n    go.wait()\n    " +
			"again(3)\nthreading.Thread(target=f).start()"},
		{code: "go.set(); done.wait()\nprint('mine')\ntold", want: want{
			Result: `["list_skills: the execution that started this thread has ended"]`, Output: []string{"mine"}}},
		{code: "t = threading.Thread(target=print, args=('new',)); t.start(); t.join()", want: printed("new")},
		{code: "from concurrent.futures import ThreadPoolExecutor\nwith ThreadPoolExecutor(2) as p: list(p.map(print, 'aa'))",
			want: want{Output: []string{"a", "a"}}},
	},
	"a thread made without a Thread is silent in the next call": {
		{code: "import _thread, threading\ngo = threading.Event(); done = threading.Event()\ndef f():\n    go.wait()\n    " +
			"print('late')\n    done.set()\nx = _thread.start_new_thread(f, ())"},
		{code: "go.set(); done.wait()\nprint('mine')", want: printed("mine")},
		{code: "done = threading.Event()\ndef g():\n    print('new')\n    done.set()\nx = _thread.start_new_thread(g, ())\ny = done.wait()",
			want: printed("new")},
	},
	"a checkpoint outside a session is an error of the host": {
		{code: "checkpoint([1], 2)", want: raised("TypeError", "step must be a number or a string, got list")},
		{code: "checkpoint(True)", want: raised("TypeError", "got bool")},
	},
	"a call that is open when the code ends fails": {
		{code: call + "import threading\nerrors = []\nstarted = threading.Event()\ndef f():\n    started.set()\n    try: _call('wait', " +
			"{})\n    except RuntimeError as e: errors.append(str(e))\nt = threading.Thread(target=f); t.start(); started.wait()\nNone"},
		{code: "_call('echo', 1)", want: value(`1`)},
		{code: "t.join()\n[e.endswith('has ended') for e in errors]", want: value(`[true]`)},
	},
	"a line that was not finished belongs to its call": {
		{code: "import sys\nx = sys.stdout.write('begun')", want: printed("begun")},
		{code: "print('new')", want: printed("new")},
	},
	"a skill that changed is read again": {
		{code: "save_skill('s', 'def s(): return 1')\nfrom skills import s\ns()", want: value(`1`)},
		{code: "load_skill.__self__._channel.call('save_skill', {'name': 's', 'code': 'def s(): return 2'})\nNone"},
		{code: "from skills import s\ns()", want: value(`2`)},
	},
	"pictures are counted for each call": {
		{code: png + "for _ in range(8): show(PNG)\nNone", want: want{Images: strings.Fields(strings.Repeat("image/png ", 8))}},
		{code: "show(PNG)", want: want{Images: []string{"image/png"}}},
	},
	"a task of asyncio ends with its call": {
		{code: "import asyncio\nasync def f():\n    try: await asyncio.sleep(60)\n    except asyncio.CancelledError: " +
			"seen.append(1)\nseen = []\nt = asyncio.create_task(f())\nawait asyncio.sleep(0)"},
		{code: "await asyncio.sleep(0)\nseen", want: value(`[1]`)},
	},
}

func TestSessions(t *testing.T) {
	for name, rows := range sessions {
		t.Run(name, func(t *testing.T) {
			w := open(t, worker.Limits{ResultBytes: 1 << 20})
			h := newHost()
			for _, row := range rows {
				h.output = nil
				o := w.run(context.Background(), t, row.code, row.vars, h)
				if row.want.Status == "" {
					row.want.Status = sandbox.Completed
				}
				if diff := cmp.Diff(row.want, outcome(o, h.output, row.want)); diff != "" {
					t.Fatalf("%s\n%s\ntraceback: %s", row.code, diff, o.Traceback)
				}
			}
		})
	}
}

func TestProgressIsRateLimitedExceptLast(t *testing.T) {
	w, h := open(t, worker.Limits{}), newHost()
	o := w.run(context.Background(), t, "for i in range(100001): progress(i, 100000, 'é' * 2000)", "", h)
	if o.Status != sandbox.Completed {
		t.Fatalf("%+v", o)
	}
	if n := len(h.progress); n < 2 || n > 10000 {
		t.Fatalf("%d of 100001 calls of progress arrived", n)
	}
	var last struct {
		Done, Total int
		Message     string
	}
	if err := json.Unmarshal([]byte(h.progress[len(h.progress)-1]), &last); err != nil {
		t.Fatal(err)
	}
	if last.Done != 100000 || last.Total != 100000 || last.Message != strings.Repeat("é", 1000) {
		t.Errorf("the last progress is %+v", last)
	}
}

func TestProgressOfQuickCallsArrives(t *testing.T) {
	for code, want := range map[string][]string{
		"for i in range(5): progress(i, 10)": {`{"done":0,"total":10,"message":""}`, `{"done":1,"total":10,"message":""}`,
			`{"done":2,"total":10,"message":""}`,
			`{"done":3,"total":10,"message":""}`, `{"done":4,"total":10,"message":""}`},
		"for i in range(50000): progress(i)": {`{"done":49999,"total":null,"message":""}`},
	} {
		w, h := open(t, worker.Limits{}), newHost()
		w.run(context.Background(), t, code, "", h)
		if got := h.progress; len(got) < len(want) || !slices.Equal(got[len(got)-len(want):], want) {
			t.Errorf("%s: %d notices, the last is %s", code, len(got), got[max(0, len(got)-1):])
		}
	}
}

func TestConcurrentAnswersMatchCalls(t *testing.T) {
	var all sync.WaitGroup
	for i := range 16 {
		w := open(t, worker.Limits{})
		all.Go(func() {
			for j := range 10 {
				code := call + fmt.Sprintf("print(%d)\n_call('echo', [%d, n])", i, i)
				h := newHost()
				w.number++
				o, err := w.Run(context.Background(), w.number, sandbox.Program{Code: code, Vars: fmt.Appendf(nil, `{"n": %d}`, j)}, h)
				if err != nil || string(o.Result) != fmt.Sprintf("[%d,%d]", i, j) || len(h.output) != 1 || h.output[0] != fmt.Sprint(i) {
					t.Errorf("worker %d, call %d: %+v, output %q, %v", i, j, o, h.output, err)
				}
			}
		})
	}
	all.Wait()
}
