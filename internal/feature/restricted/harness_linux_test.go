package restricted

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/daemon"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/feature"
	"github.com/sandpiper-mcp/sandpiper/internal/home/workspace"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/process"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/python"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/worker"
)

// scratch is a directory that a sandbox of any user may read.
var scratch string

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil {
		panic(err)
	}
	scratch = dir
	defer func() {
		if shared.Backend != nil {
			shared.Close()
		}
	}()
	return m.Run()
}

var installed = sync.OnceValues(func() (*python.Installation, error) {
	modules := daemon.Modules(feature.OfDaemon([]feature.Feature{Feature()}))
	return python.Install(context.Background(), python.Config{Dir: filepath.Join(scratch, "python"), Overlay: worker.Python(modules...)})
})

// start starts a backend whose configuration change may alter, or skips the test where there can be none.
func start(t *testing.T, dir string, change func(*process.Config)) *process.Backend {
	t.Helper()
	in, err := installed()
	if err != nil {
		t.Fatal(err)
	}
	libraries, err := in.SystemLibraries()
	if err != nil {
		t.Fatal(err)
	}
	cfg := process.Config{Config: sandbox.Config{
		Python:    in.Dir(),
		Libraries: libraries,
		State:     filepath.Join(dir, "state"),
		Roots:     map[string]string{"workspaces": filepath.Join(dir, "workspaces")},
		Usage: func(ctx context.Context, dir string) (bytes, files int64, err error) {
			u, err := workspace.Measure(ctx, dir)
			return u.Bytes, u.Files + u.Dirs, err
		},
	}}
	if change != nil {
		change(&cfg)
	}
	if err := os.MkdirAll(cfg.Roots["workspaces"], 0o755); err != nil {
		t.Fatal(err)
	}
	b, err := process.New(cfg)
	if err != nil {
		if os.Getenv("REQUIRE_SANDBOX") == "process" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	return b
}

// shared is the backend of the tests that need no other; TestMain closes it.
var shared struct {
	*process.Backend
	opened int
}

// open opens a sandbox over a workspace of its own.
func open(t *testing.T) *place {
	t.Helper()
	if shared.Backend == nil {
		shared.Backend = start(t, scratch, nil)
	}
	shared.opened++
	return openIn(t, shared.Backend, scratch, fmt.Sprintf("t%d", shared.opened))
}

// place is a sandbox over a workspace of its own.
type place struct {
	sandbox.Sandbox
	workspace string
}

func openIn(t *testing.T, b *process.Backend, dir, owner string) *place {
	t.Helper()
	p := &place{workspace: filepath.Join(dir, "workspaces", owner)}
	if err := os.Mkdir(p.workspace, 0o700); err != nil {
		t.Fatal(err)
	}
	spec := sandbox.Spec{Owner: owner, Mounts: []sandbox.Mount{{Target: "/workspace", Root: "workspaces", Name: owner}}}
	if ids, err := process.TenantUIDs(); err != nil {
		t.Fatal(err)
	} else if ids > 0 {
		spec.UID = process.FirstUID
		if err := os.Chown(p.workspace, spec.UID, spec.UID); err != nil {
			t.Fatal(err)
		}
	}
	var err error
	if p.Sandbox, err = b.Open(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o444); err != nil {
			t.Fatal(err)
		}
	}
}

// free runs code without a restriction, and restricted with it.
func (p *place) free(t *testing.T, code string, h sandbox.Host) sandbox.Outcome {
	t.Helper()
	return p.run(t, sandbox.Program{Code: code}, h)
}

func (p *place) restricted(t *testing.T, code string, h sandbox.Host) sandbox.Outcome {
	t.Helper()
	return p.run(t, sandbox.Program{Code: code, Restriction: "restricted"}, h)
}

func (p *place) run(t *testing.T, program sandbox.Program, h sandbox.Host) sandbox.Outcome {
	t.Helper()
	program.ID = "exec_test"
	o, err := p.Run(t.Context(), program, h)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// host stores skills, answers calls of the server shop with their arguments, and records output.
type host struct {
	mu     sync.Mutex
	skills map[string]string
	steps  int
	output []string
}

func newHost() *host { return &host{skills: map[string]string{}} }

func (h *host) Output(p []byte) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.output = append(h.output, string(p))
	return nil
}

func (h *host) Call(_ context.Context, method string, args []byte) ([]byte, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var a struct{ Name, Code, Text string }
	if err := json.Unmarshal(args, &a); err != nil {
		return nil, err
	}
	switch method {
	case "save_skill":
		h.skills[a.Name] = a.Code
		return []byte(`{"message":"saved"}`), nil
	case "load_skill":
		code, ok := h.skills[a.Name]
		if !ok {
			return nil, fault.New(fault.NotFound, "Skill not found: %s", a.Name)
		}
		return json.Marshal(map[string]string{"code": code})
	case "list_skills":
		list := []map[string]string{}
		for name := range h.skills {
			list = append(list, map[string]string{"name": name})
		}
		return json.Marshal(list)
	case "use_skill":
		return nil, nil
	case "check":
		return []byte(`{"findings":[]}`), nil
	case "call_tool":
		return []byte(`{"value":` + string(args) + `}`), nil
	case "detokenize":
		return json.Marshal(map[string]string{"text": a.Text})
	case "step":
		h.steps++
		return fmt.Appendf(nil, `{"number":%d}`, h.steps), nil
	case "step_done":
		return []byte("null"), nil
	}
	return nil, fault.New(fault.Invalid, "there is no method %q", method)
}

// program is one row: code and its expected outcome.
type program struct {
	name string
	code string
	vars string
	want want
}

// want is an outcome as far as a row cares. What is left out must be empty, except traceback, which is a list
// of parts, and Error, of which a part is enough.
type want struct {
	Status    sandbox.Status // Completed if left out
	Result    string
	Error     string
	ErrorType string
	Output    []string
	Traceback []string
}

func raised(kind, message string, traceback ...string) want {
	return want{Status: sandbox.Raised, ErrorType: kind, Error: message, Traceback: traceback}
}

func value(json string) want { return want{Result: json} }

func printed(lines ...string) want { return want{Output: lines} }

// compare reports how an outcome differs from what a row wants.
func compare(t *testing.T, row program, o sandbox.Outcome, output []string) {
	t.Helper()
	w := row.want
	if w.Status == "" {
		w.Status = sandbox.Completed
	}
	got := want{
		Status:    o.Status,
		Result:    string(o.Result),
		Error:     o.Error,
		ErrorType: o.ErrorType,
		Output:    output,
		Traceback: w.Traceback,
	}
	if w.Error != "" && strings.Contains(o.Error, w.Error) {
		got.Error = w.Error
	}
	for _, part := range w.Traceback {
		if !strings.Contains(o.Traceback, part) {
			t.Errorf("%q is not in the traceback %s", part, o.Traceback)
		}
	}
	if diff := cmp.Diff(w, got); diff != "" {
		t.Errorf("%s\n%s\ntraceback: %s", row.code, diff, o.Traceback)
	}
}
