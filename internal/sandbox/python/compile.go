//go:build linux && (amd64 || arm64)

package python

import (
	"bufio"
	"bytes"
	"context"
	_ "embed"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
)

// executable is the path of the interpreter in an install.
const executable = "bin/python3.14"

// inside is the mount point of an install in sandboxes. It is compiled into every
// .pyc as the directory of the source, so that tracebacks contain existing paths.
const inside = "/python"

// compilers is the number of concurrent compilers. It is a constant, and files are
// assigned round-robin, because the bytes of a .pyc depend slightly on the files
// compiled before: so an install has the same bytes on every machine.
const compilers = 2

//go:embed compile.py
var compiler string

// compile compiles every source in t to a .pyc with the interpreter t.program.
func (t *tree) compile(ctx context.Context) error {
	sources := t.sources()
	for _, name := range sources {
		if err := t.dir(path.Dir(pycPath(name))); err != nil {
			return err
		}
	}
	g, gctx := errgroup.WithContext(ctx)
	for first := range compilers {
		var assigned []string
		for i := first; i < len(sources); i += compilers {
			assigned = append(assigned, sources[i])
		}
		if len(assigned) > 0 {
			g.Go(func() error { return t.runCompiler(gctx, assigned, len(sources)) })
		}
	}
	return errors.Join(g.Wait(), context.Cause(ctx))
}

// pycPath returns the path at which Python looks for the .pyc of a source.
func pycPath(name string) string {
	dir, base := path.Split(name)
	return dir + "__pycache__/" + strings.TrimSuffix(base, ".py") + ".cpython-314.pyc"
}

func (t *tree) runCompiler(ctx context.Context, sources []string, total int) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	cmd := t.python(ctx, "-c", compiler, t.inside)
	cmd.Stdin = strings.NewReader(strings.Join(sources, "\n") + "\n")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting the compiler: %w", err)
	}
	err = t.store(bufio.NewReaderSize(out, 64<<10), sources, total)
	if err != nil {
		cancel() // the compiler must not wait for a reader
	}
	exitErr := cmd.Wait()
	switch {
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("%w: %w: %s", err, exitErr, bytes.TrimSpace(stderr.Bytes()))
	case err != nil:
		return err
	}
	return exitErr
}

// store writes the .pyc files that a compiler outputs.
func (t *tree) store(out io.Reader, sources []string, total int) error {
	for _, name := range sources {
		var size uint32
		if err := binary.Read(out, binary.BigEndian, &size); err != nil {
			return fmt.Errorf("compiling %s: %w", name, err)
		}
		if size == 0 {
			if !t.lenient {
				return fmt.Errorf("%s does not compile", name)
			}
			t.count("compile", total)
			continue
		}
		pyc := &io.LimitedReader{R: out, N: int64(size)}
		if err := t.file(pycPath(name), false, pyc); err != nil {
			return err
		}
		if pyc.N > 0 {
			return fmt.Errorf("compiling %s: %w", name, io.ErrUnexpectedEOF)
		}
		t.count("compile", total)
	}
	return nil
}

// python returns a command that runs the interpreter without environment and site.
func (t *tree) python(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, t.program, append([]string{"-I", "-S", "-B", "-X", "utf8"}, args...)...)
	cmd.Dir = t.root
	cmd.Env = []string{}
	cmd.WaitDelay = time.Second
	return cmd
}

// tryStart starts the interpreter once. A program that was just written can be
// "text file busy" for a moment: a process forked concurrently by another goroutine
// has it open until it calls exec (golang.org/issue/22315).
func (t *tree) tryStart(ctx context.Context) error {
	for wait := time.Millisecond; ; wait *= 2 {
		out, err := t.python(ctx, "-c", "pass").CombinedOutput()
		if errors.Is(err, syscall.ETXTBSY) && wait < time.Second {
			time.Sleep(wait)
			continue
		}
		if err != nil {
			return cannotStart(err, out, t.root)
		}
		return nil
	}
}
