package journal

import (
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/json"
	"errors"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/store/sealed"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
)

// Answer is the result of a host call: a value, or the error that the code received.
type Answer struct {
	Value   json.RawMessage `json:"value,omitempty"`
	Failure *tool.Failure   `json:"failure,omitempty"` // the tool's own error
	Fault   *Fault          `json:"fault,omitempty"`   // any other
	// Definition identifies the arguments' schema of the tool that was called, in hexadecimal; ""
	// means that it is not known.
	Definition string `json:"definition,omitempty"`
	Unknown    bool   `json:"-"` // Value is the tool.Result of a call whose outcome is unknown
}

// Fault is the public part of an error.
type Fault struct {
	Kind    fault.Kind `json:"kind"`
	Message string     `json:"message"`
	Hint    string     `json:"hint,omitempty"`
}

// NewAnswer returns the Answer of a call that returned value or err.
func NewAnswer(value any, err error) (a Answer, wrong error) {
	if failed, ok := errors.AsType[*tool.Failure](err); ok {
		a.Failure = failed
		return a, nil
	}
	if err != nil {
		a.Fault = &Fault{fault.KindOf(err), fault.Message(err), fault.Hint(err)}
		return a, nil
	}
	if res, ok := value.(tool.Result); ok {
		a.Unknown = res.Outcome == tool.Unknown
		a.Value, wrong = res.Encode()
		return a, wrong
	}
	a.Value, wrong = json.Marshal(value)
	return a, wrong
}

// encode encodes a for the record. A value is JSON already.
func (a Answer) encode() ([]byte, error) {
	if a.Value == nil || a.Failure != nil || a.Fault != nil {
		return json.Marshal(a)
	}
	const before, middle, after = `{"definition":"`, `","value":`, `}`
	b := make([]byte, 0, len(before)+len(a.Definition)+len(middle)+len(a.Value)+len(after))
	b = append(append(append(b, before...), a.Definition...), middle...)
	return append(append(b, a.Value...), after...), nil
}

// Err returns the recorded error, or nil.
func (a Answer) Err() error {
	switch {
	case a.Failure != nil:
		return a.Failure
	case a.Fault != nil:
		return &fault.Error{Kind: a.Fault.Kind, Message: a.Fault.Message, Hint: a.Fault.Hint}
	}
	return nil
}

// cipher encrypts what is stored of one execution. Its key is derived from the tenant.
type cipher struct {
	sealed.Cipher
	execution string
}

func newCipher(key []byte, tenant, execution string) (cipher, error) {
	own, err := hkdf.Key(sha256.New, key, nil, "run\x00"+tenant, sealed.KeySize)
	if err != nil {
		return cipher{}, err
	}
	b, err := sealed.New(own, tenant)
	return cipher{b, execution}, err
}

// The encrypted columns of events.
var (
	ofArguments = ofNumber("run_events", "arguments")
	ofAnswer    = ofNumber("run_events", "answer")
)

// ofExecution describes a column of a table that has a row for each execution, and ofNumber one of a
// table with numbered rows.
func ofExecution(table, name string) sealed.Column {
	return sealed.Column{Table: table, Name: name, Keys: []string{"execution"}}
}

func ofNumber(table, name string) sealed.Column {
	return sealed.Column{Table: table, Name: name, Keys: []string{"execution", "number"}}
}

// keys returns the keys of the execution's row, with its number if it has one.
func (b cipher) keys(c sealed.Column, number int) []any {
	return []any{b.execution, number}[:len(c.Keys)]
}

func (b cipher) encrypt(c sealed.Column, number int, text []byte) []byte {
	return b.Seal(c, text, b.keys(c, number)...)
}

func (b cipher) decrypt(c sealed.Column, number int, ciphertext []byte) ([]byte, error) {
	text, err := b.Open(c, ciphertext, b.keys(c, number)...)
	if err != nil {
		return nil, fault.Wrap(fault.Unavailable, err, "the record of the execution cannot be decrypted: it is damaged, or its key was "+
			"lost or replaced").
			WithHint("restore the file key of the data directory from a backup")
	}
	return text, nil
}
