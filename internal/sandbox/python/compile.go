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

// executable is the interpreter in an install.
const executable = "bin/python3.14"

// inside is where sandboxes show an install: compiled into every .pyc as the
// place of its source, which makes tracebacks name what is there.
const inside = "/python"

// lanes is how many compilers run at a time. It is a constant, and files are
// dealt to them by turns, because the bytes of a .pyc depend a little on what
// its compiler read before: so an install has the same bytes on every machine.
const lanes = 2

//go:embed compile.py
var compiler string

// compile writes the .pyc of every source in t, made by the interpreter in t.
func (t *tree) compile(ctx context.Context) error {
	sources := t.sources()
	for _, name := range sources {
		if err := t.dir(path.Dir(cached(name))); err != nil {
			return err
		}
	}
	g, gctx := errgroup.WithContext(ctx)
	for lane := range lanes {
		var mine []string
		for i := lane; i < len(sources); i += lanes {
			mine = append(mine, sources[i])
		}
		if len(mine) > 0 {
			g.Go(func() error { return t.compileLane(gctx, mine, len(sources)) })
		}
	}
	return errors.Join(g.Wait(), context.Cause(ctx))
}

// cached returns where Python looks for the .pyc of a source.
func cached(name string) string {
	dir, base := path.Split(name)
	return dir + "__pycache__/" + strings.TrimSuffix(base, ".py") + ".cpython-314.pyc"
}

func (t *tree) compileLane(ctx context.Context, sources []string, total int) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	cmd := t.python(ctx, "-c", compiler, t.inside)
	cmd.Stdin = strings.NewReader(strings.Join(sources, "\n") + "\n")
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
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
	died := cmd.Wait()
	switch {
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("%w: %w: %s", err, died, bytes.TrimSpace(complaint.Bytes()))
	case err != nil:
		return err
	}
	return died
}

// store writes the answers of a compiler.
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
			t.step("compile", total)
			continue
		}
		pyc := &io.LimitedReader{R: out, N: int64(size)}
		if err := t.file(cached(name), false, pyc); err != nil {
			return err
		}
		if pyc.N > 0 {
			return fmt.Errorf("compiling %s: %w", name, io.ErrUnexpectedEOF)
		}
		t.step("compile", total)
	}
	return nil
}

// python is the interpreter in t, alone: no environment, no site.
func (t *tree) python(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, t.program, append([]string{"-I", "-S", "-B", "-X", "utf8"}, args...)...)
	cmd.Dir = t.root
	cmd.Env = []string{}
	cmd.WaitDelay = time.Second
	return cmd
}

// try starts the interpreter once. A program that was just written can be
// "text file busy" for a moment: a process that another goroutine forked
// meanwhile holds it open until it executes (golang.org/issue/22315).
func (t *tree) try(ctx context.Context) error {
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
