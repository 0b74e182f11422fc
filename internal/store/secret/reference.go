package secret

import (
	"context"
	"io"
	"os"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// References resolves references to secrets. The zero value resolves files and
// keyring entries only.
type References struct {
	// Lookup returns the value of an environment variable; nil means that none is set.
	Lookup func(name string) (value string, ok bool)

	keyring keyring
}

// Resolve returns text with each reference replaced by its secret. References within
// a secret are not resolved; a $ that does not start a reference is kept.
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
	return "", fault.New(fault.Invalid, "the reference ${%.40s:…} has an unknown kind", kind). // the rest may be a secret
													WithHint("use ${NAME}, ${file:PATH} or ${keyring:SERVICE/ACCOUNT}")
}

func (r *References) variable(name string) (string, error) {
	if r.Lookup != nil {
		if v, ok := r.Lookup(name); ok {
			return v, nil
		}
	}
	return "", fault.New(fault.Invalid, "the variable %s is not set", name).
		WithHint("set it in the environment of Sandpiper or in the .env file next to the configuration file")
}

// maxFile is the maximum size of a secret file.
const maxFile = 64 << 10

// file returns the content of a file without trailing line ends. The file may be a
// pipe, such as a shell creates for <(…).
func file(path string) (string, error) {
	b, err := read(path)
	if err != nil || len(b) > maxFile {
		return "", fault.Wrap(fault.Invalid, err, "the secret file %s cannot be read", path).
			WithHint("it must be readable by the user that runs Sandpiper and have at most %d bytes", maxFile)
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
