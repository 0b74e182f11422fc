package redact

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// Message is outbound content. Body is marshalled to compact JSON; a string is sent as
// text.
type Message struct {
	Body    any
	Images  []Image
	Failed  bool   // the result is an error
	Sources string // servers whose text Body may contain, if known
	Note    string // for the model, without private data; the key "note" of Body, if that is an object
	// CountTokens adds the key "private" to Body, if that is an object and contains tokens: how many
	// values they replace, by type.
	CountTokens bool
	Page        *Page // replaces PagePlaceholder in Body; nil: none
	Sanitized   bool  // Body was returned by Tokens.Sanitize and is not redacted again
	Protocol    bool  // Body is a result of the protocol, which gets no keys; see Redacted.Neutralized
	Reveal      bool  // tokens in Body are restored: the only way for values to reach a model; requires Config.Reveal
}

// Page is a part of a text, with context on both sides: a value that crosses the end
// of a page is replaced by a token on the page where it begins.
type Page struct {
	Text       string
	Start, End int
}

// PagePlaceholder is the JSON string in a Body that is replaced by the Page.
const PagePlaceholder = "\x00page"

// Image is an outbound image.
type Image struct {
	MIME string
	Data []byte
}

// Redacted is content that may be sent to a model. Protocol servers refuse its zero value.
type Redacted struct {
	ok          bool
	text        string
	images      []Image
	failed      bool
	neutralized int
}

// ErrNotRedacted is returned for the zero Redacted, and by the zero Gate and its zero
// parts.
var ErrNotRedacted = errors.New("redact: content was not redacted")

// Content returns what may be sent. It fails for the zero Redacted.
func (s Redacted) Content() (text string, images []Image, failed bool, err error) {
	if !s.ok {
		return "", nil, false, ErrNotRedacted
	}
	return s.text, s.images, s.failed, nil
}

// Neutralized returns how many images, tags and control characters were changed, so that a client loads
// nothing. The text itself states that unless it is a string or a result of the protocol.
func (s Redacted) Neutralized() int { return s.neutralized }

// Changed begins the sentence about neutralized text for a model.
const Changed = "images, tags or control characters in this text were changed, so that nothing loads: writing it back would change the " +
	"original"

func marshalBody(body any) (string, error) {
	if s, ok := body.(string); ok {
		return s, nil
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(body)
	return string(bytes.TrimRight(b.Bytes(), "\n")), err
}

// withMember returns text with a member added at the end, if text is a JSON object.
func withMember(text, name, value string) string {
	if value == "" || !strings.HasPrefix(text, "{") || !strings.HasSuffix(text, "}") {
		return text
	}
	member := quote(name) + ":" + quote(value) + "}"
	if text == "{}" {
		return "{" + member
	}
	return text[:len(text)-1] + "," + member
}

// withNeutralized returns text, if it is a JSON object, with the number of its parts that were changed so
// that a client loads nothing, and with the way to the text as it is.
func withNeutralized(text string, n int) string {
	if n == 0 {
		return text
	}
	with := withMember(text, "as_it_is", Changed+". Code works on the original: edit it there, for instance write_file(f, "+
		"read_file(f).replace(old, new))")
	if with == text {
		return text
	}
	at := strings.LastIndex(with, `"as_it_is":`)
	return with[:at] + fmt.Sprintf(`"neutralized":%d,`, n) + with[at:]
}
