package vault

import (
	"context"
	"path/filepath"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/store/secret"
)

// Master wraps the keys of tenants. A wrapped key is bound to its purpose by
// additional data. Its errors are shown to the operator and name what is missing.
type Master interface {
	ID() string // stored with the keys that it wrapped; not secret
	Wrap(ctx context.Context, key, additionalData []byte) ([]byte, error)
	Unwrap(ctx context.Context, wrapped, additionalData []byte) ([]byte, error)
}

// OpenMaster returns the master key that text describes. It does no I/O.
//
//	file                     the file key in the data directory, created with the first value; "" is the same
//	file:PATH                another file, created likewise
//	keyring:SERVICE/ACCOUNT  32 bytes in base64 or hexadecimal, in the keyring of the operating system
func OpenMaster(_ context.Context, text, dataDir string) (Master, error) {
	kind, at, _ := strings.Cut(text, ":")
	switch {
	case text == "" || text == "file":
		return fileMaster{secret.KeyFile(filepath.Join(dataDir, "key"))}, nil
	case kind == "file" && at != "":
		return fileMaster{secret.KeyFile(at)}, nil
	case kind == "keyring" && strings.IndexByte(at, '/') > 0 && !strings.HasSuffix(at, "/") && !strings.Contains(at, "}"):
		return keyringMaster(at), nil
	}
	return nil, fault.New(fault.Invalid, "master key %.60q is not valid", text).
		WithHint("write file, file:PATH or keyring:SERVICE/ACCOUNT; pii.key_command fetches a key from other services")
}
