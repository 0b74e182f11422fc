package execution

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/shape"
)

// What exceeds the size of a reply is stored completely under results, in the
// workspace, and the reply contains the path. These limits are not configurable:
const (
	results        = home.ResultsDir
	maxErrorBytes  = 2 << 10 // of error
	maxTraceBytes  = 8 << 10 // of traceback
	maxStderrBytes = 4 << 10 // of stderr
	maxImageBytes  = 4 << 20 // of all images
	maxImages      = 8       // in number
)

// spiller stores what exceeds the size of a reply in the tenant's workspace.
type spiller struct {
	files    files
	id       string
	maxValue int // bytes of a value in a reply
	exit     *redact.Exit
}

// files is the part of a workspace that spilling needs.
type files interface {
	Put(name string, data []byte) error // atomic, and durable when it returns
	Create(name string) (file, error)
}

// description replaces a value that spilled in a reply.
type description struct {
	shape.Preview
	Path  string `json:"path,omitempty"`
	Bytes int    `json:"bytes"`
	Next  string `json:"next"` // how to continue
}

// name returns the file of this execution with the given suffix, relative to the
// workspace; path returns it as the code sees it.
func (s spiller) name(ending string) string { return results + "/" + s.id + ending }
func (s spiller) path(ending string) string { return "/workspace/" + s.name(ending) }

// value sets the result's value, or a description of it if it is too large.
func (s spiller) value(r *Result, v json.RawMessage) error {
	if len(v) <= s.maxValue {
		r.Value = v
		return nil
	}
	p, err := shape.Describe(v, 0, s.exit.Truncate)
	if err != nil {
		return fmt.Errorf("describe the result: %w", err)
	}
	if err := redactPreview(context.Background(), s.exit, &p); err != nil {
		return err
	}
	d := description{Preview: p, Bytes: len(v)}
	if err := s.files.Put(s.name(".json"), v); err != nil {
		d.Next = "the result is too large for a reply and could not be stored: " + fault.Message(err) + "; return less, or a summary"
	} else {
		d.Path = s.path(".json")
		d.Next = s.slice(p)
	}
	r.Spilled = true
	r.Value, err = json.Marshal(d)
	return err
}

// slice returns a line of Python that reads part of the spilled value.
func (s spiller) slice(p shape.Preview) string {
	load := fmt.Sprintf("json.loads(read_file(%q))", s.name(".json"))
	switch {
	case p.Type == "array":
		return "result = " + load + "[:20]"
	case p.Type == "object" && len(p.Keys) > 0 && !strings.HasSuffix(p.Keys[0].Name, "…"):
		return fmt.Sprintf("result = %s[%s]", load, pythonString(p.Keys[0].Name))
	case p.Type == "string":
		return "result = " + load + "[:5000]"
	default:
		return "data = " + load
	}
}

// pythonString returns s as a string literal that is valid in Python.
func pythonString(s string) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(s) // a string always encodes
	return strings.TrimSuffix(b.String(), "\n")
}

// images adds images to the result as far as a reply may contain them, and stores the
// others in files.
func (s spiller) images(r *Result, images []sandbox.Image) {
	left := maxImageBytes
	for i, m := range images {
		if len(m.Data) <= left && len(r.Images) < maxImages {
			left -= len(m.Data)
			r.Images = append(r.Images, Image(m))
			continue
		}
		ending := fmt.Sprintf(".%d.%s", i+1, imageEnding(m.MIME))
		if err := s.files.Put(s.name(ending), m.Data); err != nil {
			r.ImageFiles = append(r.ImageFiles, fmt.Sprintf("image %d could not be stored: %s", i+1, fault.Message(err)))
			continue
		}
		r.ImageFiles = append(r.ImageFiles, s.path(ending))
	}
}

func imageEnding(mime string) string {
	switch mime {
	case "image/png", "image/jpeg", "image/gif", "image/webp":
		return strings.TrimPrefix(mime, "image/")
	}
	return "bin"
}

// errors truncates the texts of a failure. If that removes anything, the complete texts
// are stored in a file.
func (s spiller) errors(r *Result) {
	r.ErrorType = s.exit.Truncate(r.ErrorType, 200)
	if len(r.Error) <= maxErrorBytes && len(r.Traceback) <= maxTraceBytes && len(r.Stderr) <= maxStderrBytes {
		return
	}
	whole := fmt.Sprintf("%s: %s\n\n%s\n\nstderr:\n%s\n", r.ErrorType, r.Error, r.Traceback, r.Stderr)
	rest := "the complete text could not be stored"
	if s.files.Put(s.name(".error.txt"), []byte(whole)) == nil {
		r.ErrorFile = s.path(".error.txt")
		rest = "the complete text is in " + r.ErrorFile
	}
	if len(r.Error) > maxErrorBytes && strings.HasSuffix(r.Error, " characters)") { // the worker has truncated it, perhaps inside a token
		r.Error = s.exit.Truncate(r.Error, maxErrorBytes) + "… (" + rest + ")"
	}
	r.Error = s.middle(r.Error, maxErrorBytes+200, rest)
	r.Traceback = s.middle(r.Traceback, maxTraceBytes, rest)
	r.Stderr = s.middle(r.Stderr, maxStderrBytes, rest)
}

// middle removes the middle of a text of more than n bytes: in a traceback, both ends
// matter.
func (s spiller) middle(text string, n int, rest string) string {
	if len(text) <= n {
		return text
	}
	begin, end := s.exit.Truncate(text, n/2), text[len(s.exit.Truncate(text, len(text)-n/2)):]
	return begin + fmt.Sprintf("… (%d bytes cut; %s) …", len(text)-n, rest) + strings.ToValidUTF8(end, "")
}
