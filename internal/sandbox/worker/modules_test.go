//go:build linux

package worker_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/worker"
)

// generatedHost answers the calls of the generated package servers.
type generatedHost struct{ *host }

func (h generatedHost) Call(ctx context.Context, method string, args []byte) ([]byte, error) {
	switch method {
	case "await_tools":
		return []byte("null"), nil
	case "why_missing":
		return []byte(`""`), nil
	case "call_tool":
		return []byte(`{"value":` + string(args) + `}`), nil
	}
	return h.host.Call(ctx, method, args)
}

// openGenerated opens a worker whose workspace has the package that the tests of codegen generate.
func openGenerated(t *testing.T) *pyWorker {
	t.Helper()
	w := open(t, worker.Limits{})
	if err := os.CopyFS(filepath.Join(w.dir, "servers"), os.DirFS("../../tool/codegen/testdata/golden/servers")); err != nil {
		t.Fatal(err)
	}
	return w
}

func TestServerModulesAreSeenAsFromSource(t *testing.T) {
	program, err := os.ReadFile("testdata/seen.py")
	if err != nil {
		t.Fatal(err)
	}
	var seen [2][]string
	for i, fromSource := range []string{"true", "false"} {
		w := openGenerated(t)
		vars := `{"from_source":` + fromSource + `,"workspace_name":"` + filepath.Base(w.dir) + `"}`
		o := w.run(t.Context(), t, string(program), vars, generatedHost{newHost()})
		if err := json.Unmarshal(o.Result, &seen[i]); err != nil {
			t.Fatalf("%v: %s\n%s", err, o.Error, o.Traceback)
		}
	}
	if d := cmp.Diff(seen[0], seen[1]); d != "" || len(seen[0]) < 100 {
		t.Errorf("%d lines; from source and not:\n%s", len(seen[0]), d)
	}
	if tools := strings.Join(seen[1], "\n"); !strings.Contains(tools, "servers.tracker.list_issues signature: (") {
		t.Error("the program looked at no tool")
	}
}

func TestToolFunctionsAreMadeFromTheIndex(t *testing.T) {
	for name, change := range map[string]struct {
		file, content string // replaced before the import
		code, want    string
	}{
		"the module is not read": {"tracker/list_issues.py", "1/0",
			"from servers.tracker import list_issues\nlist_issues('me', repo='it', labels=['a'])['args']",
			`{"labels":["a"],"owner":"me","per_page":30,"repo":"it","state":"open"}`},
		"nor that of the package": {"tracker/__init__.py", "1/0",
			"from servers import tracker\n[tracker.get()['tool'], 'list_issues' in dir(tracker), tracker.__doc__[:7]]",
			`["get",true,"Tracker"]`},
		"a class executes the module": {"tracker/get.py", "class New: pass\ndef get(): pass",
			"import sys\nfrom servers.tracker import get\nfrom servers.tracker.get import New\n[get(), New.__name__]", `[null,"New"]`},
		"an index of another version is not used": {"tracker/.tools", "sandpiper tools 0 \n",
			"from servers.tracker import get\nget()['tool']", `"get"`},
		"nor one that is cut": {"tracker/.tools", "sandpiper tools 1 ",
			"from servers.tracker import get\nget()['tool']", `"get"`},
		"a tool without a file has no annotations": {"tracker/get.py", "",
			"import inspect, os\nfrom servers import tracker\nget = " +
				"tracker.get\nos.unlink('servers/tracker/get.py')\nstr(inspect.signature(get))", `"(**more)"`},
		"threads get one function": {"tracker/get.py", "",
			"from servers import tracker\nall = parallel(*[lambda: tracker.get] * 20)\nlen(set(map(id, all)))", `1`},
		"a removed server has no tools": {"tracker/get.py", "",
			"import os\nfrom servers import tracker\nos.unlink('servers/tracker/.tools')\n[hasattr(tracker, '_tools'), " +
				"len(tracker._tools)]", `[true,0]`},
		"files are listed without it": {"tracker/get.py", "", "[f for f in list_files('servers') if '.tools' in f]", `[]`},
	} {
		t.Run(name, func(t *testing.T) {
			w := openGenerated(t)
			file := filepath.Join(w.dir, "servers", change.file)
			if err := errors.Join(os.Remove(file), os.WriteFile(file, []byte(change.content), 0o644)); err != nil {
				t.Fatal(err)
			}
			o := w.run(t.Context(), t, change.code, "{}", generatedHost{newHost()})
			var got, want any
			_, _ = json.Unmarshal(o.Result, &got), json.Unmarshal([]byte(change.want), &want)
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("%s\n%s\n%s", d, o.Error, o.Traceback)
			}
		})
	}
}

func TestSessionSeesReplacedTools(t *testing.T) {
	w := openGenerated(t)
	h := generatedHost{newHost()}
	if o := w.run(t.Context(), t, "import servers, inspect\nfrom servers.tracker import get as old\nresult = [old.__doc__[:5], "+
		"len(inspect.getsource(servers._Package.__getattr__))]", "{}", h); !strings.HasPrefix(string(o.Result), `["Has n",`) {
		t.Fatalf("%+v", o)
	}
	dir := filepath.Join(w.dir, "servers")
	for file, change := range map[string][2]string{"tracker/.tools": {"Has no schema", "HAS no schema"},
		"tracker/get.py": {"Has no schema", "HAS no schema"}, "__init__.py": {"The servers:", "The\n\nservers:"}} {
		data, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			t.Fatal(err)
		}
		next := filepath.Join(w.dir, "next")
		if err := errors.Join(os.WriteFile(next, []byte(strings.ReplaceAll(string(data), change[0], change[1])), 0o644),
			os.Rename(next, filepath.Join(dir, file))); err != nil {
			t.Fatal(err)
		}
	}
	o := w.run(t.Context(), t, "before = servers\nimport servers\nfrom servers.tracker import get\nresult = [old.__doc__[:5], "+
		"get.__doc__[:5], inspect.getsource(servers._Package.__getattr__)[:20].strip(), before is servers, 'servers:' in servers.__doc__]",
		"{}", h)
	if want := `["Has n","HAS n","def __getattr__(",false,true]`; string(o.Result) != want {
		t.Errorf("got %s (%s), want %s", o.Result, o.Error, want)
	}
	o = w.run(t.Context(), t, "package = before.tracker\nresult = [package.list('x')['tool'], package.aio.get.__name__, "+
		"package.resources.__name__]", "{}", h)
	if want := `["list","get","servers.tracker.resources"]`; string(o.Result) != want {
		t.Errorf("a package of an earlier step: got %s (%s), want %s", o.Result, o.Error, want)
	}
}
