// Package egress is the one exit toward a model. Every text, image and
// progress message that a face sends to a model is a Sealed, and only this
// package makes one. The faces accept nothing else, so that a filter placed
// here sees everything.
//
// In mode Off the content passes unchanged; the mode must be chosen in so many
// words. The zero Exit refuses everything.
package egress

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
)

// Mode says what the exit does to content.
type Mode string

// Off lets everything pass as it is.
const Off Mode = "off"

// Exit seals values. It is immutable and safe for concurrent use.
type Exit struct{ mode Mode }

// New returns an exit in the given mode.
func New(mode Mode) (*Exit, error) {
	if mode != Off {
		return nil, errors.New("egress: unknown mode " + string(mode))
	}
	return &Exit{mode: mode}, nil
}

// Message is content on its way out. Body is marshalled to compact JSON, except
// that a string passes as text.
type Message struct {
	Body   any
	Images []Image
	Failed bool // the answer reports a failure
}

// Image is a picture on its way out.
type Image struct {
	MIME string
	Data []byte
}

// Sealed is content that may leave. Its zero value is refused by every face.
type Sealed struct {
	ok     bool
	text   string
	images []Image
	failed bool
}

// ErrUnsealed is returned by faces that are handed a Sealed nobody sealed.
var ErrUnsealed = errors.New("egress: content was not sealed")

// Seal passes v, a Message or any JSON value, through the exit.
func (e *Exit) Seal(_ context.Context, v any) (Sealed, error) {
	if e == nil || e.mode != Off {
		return Sealed{}, ErrUnsealed
	}
	m, ok := v.(Message)
	if !ok {
		m = Message{Body: v}
	}
	if s, ok := m.Body.(string); ok {
		return Sealed{ok: true, text: s, images: m.Images, failed: m.Failed}, nil
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(m.Body); err != nil {
		return Sealed{}, err
	}
	return Sealed{ok: true, text: string(bytes.TrimRight(b.Bytes(), "\n")), images: m.Images, failed: m.Failed}, nil
}

// Open returns what may be sent. It fails on the zero Sealed.
func (s Sealed) Open() (text string, images []Image, failed bool, err error) {
	if !s.ok {
		return "", nil, false, ErrUnsealed
	}
	return s.text, s.images, s.failed, nil
}
