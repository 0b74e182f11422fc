package session

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strconv"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// box encrypts the contents of one tenant's sessions. Each ciphertext is bound to its
// kind, session and task number.
type box struct {
	cipher.AEAD
	key []byte
}

func newBox(key []byte) (box, error) {
	if len(key) != 32 {
		return box{}, errors.New("session: Config needs a Key of 32 bytes")
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return box{}, err
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	return box{aead, key}, err
}

// Kinds of encrypted content.
const (
	kindTask       = "task"
	kindRecord     = "record"
	kindFile       = "file"
	kindCheckpoint = "checkpoint"
)

func additionalData(kind, session string, number int) []byte {
	return []byte("sandpiper session\x00" + kind + "\x00" + session + "\x00" + strconv.Itoa(number))
}

func (b box) encrypt(kind, session string, number int, v any) ([]byte, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return b.Seal(nil, nil, text, additionalData(kind, session, number)), nil
}

func (b box) decrypt(kind, session string, number int, encrypted []byte, v any) error {
	text, err := b.Open(nil, nil, encrypted, additionalData(kind, session, number))
	if err != nil {
		return fault.Wrap(fault.Internal, err, "the log of session %q is damaged or was encrypted with another key", session).
			WithHint("restore the file key of the data directory, or the tenant's database, from a backup")
	}
	return json.Unmarshal(text, v)
}

// mac returns the keyed hash that identifies a path in session_files.
func (b box) mac(session, path string) string {
	h := hmac.New(sha256.New, b.key)
	h.Write(additionalData(kindFile, session, 0))
	h.Write([]byte("\x00" + path))
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
