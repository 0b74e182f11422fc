package vault

import (
	"context"
	"path/filepath"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/secret"
)

// Master wraps the keys of tenants. What it is asked to wrap for one purpose it
// unwraps for no other. Its errors say what is missing.
type Master interface {
	ID() string // is kept beside what it wrapped; no secret
	Wrap(ctx context.Context, key, about []byte) ([]byte, error)
	Unwrap(ctx context.Context, wrapped, about []byte) ([]byte, error)
}

// OpenMaster returns the master key that a text names:
//
//	file       the file key in the data directory; made with the first value. Also ""
//	file:PATH  another file, of 32 bytes; likewise
//
// Nothing is read before it is needed.
func OpenMaster(ctx context.Context, text, dataDir string) (Master, error) {
	kind, at, _ := strings.Cut(text, ":")
	switch {
	case text == "" || text == "file":
		return fileMaster{secret.KeyFile(filepath.Join(dataDir, "key"))}, nil
	case kind == "file" && at != "":
		return fileMaster{secret.KeyFile(at)}, nil
	}
	return nil, fault.New(fault.Invalid, "the master key %.40q is not understood", kind). // what follows may be a secret
												WithHint("write file or file:PATH")
}
