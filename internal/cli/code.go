package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"

	"github.com/sandpiper-mcp/sandpiper/internal/execution/pycode"
)

// Code is where the arguments of a command say that its Python is.
type Code struct {
	File   string // "" and "-" mean standard input
	Text   string // of -c
	Inline bool   // -c was given
}

// Read reads the code from the file, standard input or -c.
func (c Code) Read(env *Env) (string, error) {
	switch {
	case c.Inline && c.File != "":
		return "", Usagef("both %q and -c were given; use one of them", c.File)
	case c.Inline:
		return c.Text, nil
	case c.File == "" && IsTerminal(env.Stdin):
		return "", Usagef("no code was given: pass a file, -c or standard input")
	case c.File == "" || c.File == "-":
		return readCode(env.Stdin, "standard input")
	}
	f, err := OpenInput(c.File)
	if errors.Is(err, fs.ErrNotExist) && filepath.Ext(c.File) != ".py" {
		return "", fmt.Errorf("%w; to run code use -c", err)
	}
	if err != nil {
		return "", err
	}
	defer f.Close()
	return readCode(f, c.File)
}

// readCode reads code without its byte order mark. It reads at most one byte more than
// an execution accepts: of a larger file it does not read the rest, and the execution
// rejects it.
func readCode(r io.Reader, name string) (string, error) {
	data, err := io.ReadAll(io.LimitReader(r, int64(pycode.MaxBytes+1+len(ByteOrderMark))))
	if err != nil {
		return "", fmt.Errorf("read %s: %w", name, err)
	}
	data = bytes.TrimPrefix(data, ByteOrderMark)
	return string(data[:min(len(data), pycode.MaxBytes+1)]), nil
}
