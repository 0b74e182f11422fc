package secret

import (
	"context"
	"io"
	"os"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// References looks up what references stand for. Its zero value knows files and
// the keyring only.
type References struct {
	// Lookup says what a variable holds; nil means that there are none.
	Lookup func(name string) (value string, ok bool)

	keyring keyring
}

// Resolve returns text with what its references stand for in their places. What
// was put there is not looked at again; a $ without a reference stays.
func (r *References) Resolve(ctx context.Context, text string) (string, error) {
	var b strings.Builder
	for {
		before, rest, _ := strings.Cut(text, "${")
		reference, after, ok := strings.Cut(rest, "}")
		if !ok {
			return b.String() + text, nil
		}
		value, err := r.value(ctx, reference)
		if err != nil {
			return "", err
		}
		b.WriteString(before + value)
		text = after
	}
}

func (r *References) value(ctx context.Context, reference string) (string, error) {
	kind, at, ok := strings.Cut(reference, ":")
	switch {
	case !ok:
		return r.variable(reference)
	case kind == "file":
		return file(at)
	case kind == "keyring":
		return r.keyring.get(ctx, at)
	}
	return "", fault.New(fault.Invalid, "the reference ${%.40s:…} is not understood", kind). // what follows may be a secret
													WithHint("write ${NAME}, ${file:PATH} or ${keyring:SERVICE/ACCOUNT}")
}

func (r *References) variable(name string) (string, error) {
	if r.Lookup != nil {
		if v, ok := r.Lookup(name); ok {
			return v, nil
		}
	}
	return "", fault.New(fault.Invalid, "the variable %s is not set", name).
		WithHint("set it in the environment of Sandpiper or in .env beside the configuration")
}

// maxFile bounds the file of a secret.
const maxFile = 64 << 10

// file returns what a file holds without the end of its last line. It may be a
// pipe, as shells make for <(…).
func file(path string) (string, error) {
	b, err := read(path)
	if err != nil || len(b) > maxFile {
		return "", fault.Wrap(fault.Invalid, err, "the file %s of a secret cannot be read", path).
			WithHint("it must be readable for the user that runs Sandpiper, and have at most %d bytes", maxFile)
	}
	return strings.TrimRight(string(b), "\r\n"), nil
}

func read(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxFile+1))
}
