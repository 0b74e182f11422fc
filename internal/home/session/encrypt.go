package session

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/store/sealed"
)

// cipher encrypts the contents of one tenant's sessions.
type cipher struct {
	sealed.Cipher
	key []byte
}

func newCipher(key []byte) (cipher, error) {
	b, err := sealed.New(key, "")
	return cipher{b, key}, err
}

// The encrypted columns. The row of a file is found by a keyed hash of its path.
var (
	ofTask       = sealed.Column{Table: "session_tasks", Name: "encrypted", Keys: []string{"session", "number"}}
	ofRecord     = sealed.Column{Table: "session_tasks", Name: "record", Keys: []string{"session", "number"}}
	ofCheckpoint = sealed.Column{Table: "sessions", Name: "checkpoint", Keys: []string{"id"}}
	ofFile       = sealed.Column{Table: "session_files", Name: "encrypted", Keys: []string{"session"}}
)

// encrypt encrypts v as JSON. The first key is the session.
func (b cipher) encrypt(c sealed.Column, v any, keys ...any) ([]byte, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return b.Seal(c, text, keys...), nil
}

func (b cipher) decrypt(c sealed.Column, encrypted []byte, v any, keys ...any) error {
	text, err := b.Open(c, encrypted, keys...)
	if err != nil {
		return fault.Wrap(fault.Internal, err, "the log of session %q is damaged or was encrypted with another key", keys[0]).
			WithHint("restore the file key of the data directory, or the tenant's database, from a backup")
	}
	return json.Unmarshal(text, v)
}

// mac returns the keyed hash that identifies a path in session_files.
func (b cipher) mac(session, path string) string {
	h := hmac.New(sha256.New, b.key)
	h.Write([]byte("sandpiper session file\x00" + session + "\x00" + path))
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// taskData is the encrypted part of a step. Its fields are bytes because the text may be
// invalid UTF-8.
type taskData struct {
	Description, Code, Result, Output, Vars []byte
	Fresh                                   bool `json:",omitempty"`
}

// checkpointData is the encrypted part of a checkpoint.
type checkpointData struct {
	Step, Context []byte
}
