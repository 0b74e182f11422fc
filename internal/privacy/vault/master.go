package vault

import (
	"context"
	"path/filepath"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/store/secret"
)

// Master wraps the keys of tenants. What it wrapped for one purpose it unwraps for
// no other. Its errors are shown, and say what is missing.
type Master interface {
	ID() string // is kept beside what it wrapped; no secret
	Wrap(ctx context.Context, key, about []byte) ([]byte, error)
	Unwrap(ctx context.Context, wrapped, about []byte) ([]byte, error)
}

// OpenMaster returns the master key that a text names. Nothing is read or asked
// before it is needed.
//
//	file                     the file key in the data directory, made with the first value; "" is the same
//	file:PATH                another file, likewise
//	keyring:SERVICE/ACCOUNT  32 bytes in base64, in the keyring of the operating system
//	aws-kms://ARN            a key of AWS KMS
//	gcp-kms://NAME           a key of Google Cloud KMS, projects/…/cryptoKeys/…
//	hcvault://HOST/PATH      a key of Vault's or OpenBao's transit engine
//
// The last three are in a Sandpiper that was built with the tag kms. They take
// their credentials where their vendors' own programs do.
func OpenMaster(_ context.Context, text, dataDir string) (Master, error) {
	kind, at, _ := strings.Cut(text, ":")
	switch {
	case text == "" || text == "file":
		return fileMaster{secret.KeyFile(filepath.Join(dataDir, "key"))}, nil
	case kind == "file" && at != "":
		return fileMaster{secret.KeyFile(at)}, nil
	case kind == "keyring" && strings.IndexByte(at, '/') > 0 && !strings.HasSuffix(at, "/") && !strings.Contains(at, "}"):
		return keyringMaster{at, new(secret.References)}, nil
	case (kind == "aws-kms" || kind == "gcp-kms" || kind == "hcvault") && len(at) > len("//"):
		return openKMS(kind, text)
	}
	return nil, fault.New(fault.Invalid, "the master key %.60q is not understood", text).
		WithHint("write file, file:PATH, keyring:SERVICE/ACCOUNT, aws-kms://ARN, gcp-kms://NAME or hcvault://HOST/PATH")
}
