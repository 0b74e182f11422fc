package reply

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
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
	maxNoteBytes   = 2 << 10 // of stderr of a successful execution
	maxImageBytes  = 4 << 20 // of all images
	maxImages      = 8       // in number
)

// Builder builds the result of one execution. What exceeds the size of a reply it
// stores in the tenant's workspace.
type Builder struct {
	Store
	ID       string // of the execution
	MaxValue int    // bytes of a value in a reply
	Internal bool   // the result stays in the daemon: its value is complete, and nothing is written to the workspace
}

// NewOutput returns the Output of the execution: maxReply bytes of JSON in the reply,
// and cancel is called with ErrOutput after maxTotal bytes.
func (b Builder) NewOutput(maxReply int, maxTotal int64, cancel context.CancelCauseFunc) *Output {
	return &Output{
		truncate: b.Gate.Truncate, replyLeft: maxReply, bytesLeft: maxTotal, cancel: cancel,
		create: func() (file, error) { return b.create(b.name(".output.txt")) }, path: b.path(".output.txt"),
	}
}

// AddOutcome sets the value of a completed execution or the texts of a failed one, and the stderr
// of both.
func (b Builder) AddOutcome(ctx context.Context, r *Result, o sandbox.Outcome) error {
	switch {
	case r.Success() && b.Internal:
		return b.SetValue(ctx, r, o.Result)
	case b.Internal:
		return nil
	}
	r.Stderr = o.Stderr
	if r.Success() {
		b.limitStderr(ctx, r)
		return b.SetValue(ctx, r, o.Result)
	}
	r.Traceback = o.Traceback
	b.limitErrors(ctx, r)
	return nil
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
func (b Builder) name(ending string) string { return results + "/" + b.ID + ending }
func (b Builder) path(ending string) string { return "/workspace/" + b.name(ending) }

// SetValue sets the result's value, or a description of it if it is too large.
func (b Builder) SetValue(ctx context.Context, r *Result, v json.RawMessage) error {
	if len(v) <= b.MaxValue || b.Internal {
		r.Value = v
		return nil
	}
	done, err := b.Gate.Turn(ctx, len(v))
	if err != nil {
		return err
	}
	p, err := shape.Describe(v, 0, b.Gate.Truncate)
	done()
	if err != nil {
		return fmt.Errorf("describe the result: %w", err)
	}
	if err := redactPreview(ctx, b.Gate, &p); err != nil {
		return err
	}
	d := description{Preview: p, Bytes: len(v)}
	if err := b.put(ctx, b.name(".json"), v); err != nil {
		d.Next = "the result is too large for a reply and could not be stored: " + fault.Message(err) + "; return less, or a summary"
	} else {
		d.Path = b.path(".json")
		d.Next = b.slice(p)
	}
	r.Spilled = true
	r.Value, err = json.Marshal(d)
	return err
}

// slice returns a line of Python that reads part of the spilled value.
func (b Builder) slice(p shape.Preview) string {
	load := fmt.Sprintf("json.loads(read_file(%q))", b.name(".json"))
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

// AddImages adds images to the result as far as a reply may contain them, and stores the
// others in files.
func (b Builder) AddImages(ctx context.Context, r *Result, images []sandbox.Image) {
	left := maxImageBytes
	for i, m := range images {
		if len(m.Data) <= left && len(r.Images) < maxImages {
			left -= len(m.Data)
			r.Images = append(r.Images, Image(m))
			continue
		}
		ending := fmt.Sprintf(".%d.%s", i+1, imageEnding(m.MIME))
		if err := b.put(ctx, b.name(ending), m.Data); err != nil {
			r.ImageFiles = append(r.ImageFiles, fmt.Sprintf("image %d could not be stored: %s", i+1, fault.Message(err)))
			continue
		}
		r.ImageFiles = append(r.ImageFiles, b.path(ending))
	}
}

func imageEnding(mime string) string {
	switch mime {
	case "image/png", "image/jpeg", "image/gif", "image/webp":
		return strings.TrimPrefix(mime, "image/")
	}
	return "bin"
}

// limitErrors truncates the texts of a failure. If that removes anything, the complete texts
// are stored in a file.
func (b Builder) limitErrors(ctx context.Context, r *Result) {
	r.ErrorType = b.Gate.Truncate(r.ErrorType, 200)
	if len(r.Error) <= maxErrorBytes && len(r.Traceback) <= maxTraceBytes && len(r.Stderr) <= maxStderrBytes {
		return
	}
	whole := fmt.Sprintf("%s: %s\n\n%s\n\nstderr:\n%s\n", r.ErrorType, r.Error, r.Traceback, r.Stderr)
	rest := "the complete text could not be stored"
	if b.put(ctx, b.name(".error.txt"), []byte(whole)) == nil {
		r.ErrorFile = b.path(".error.txt")
		rest = "the complete text is in " + r.ErrorFile
	}
	if len(r.Error) > maxErrorBytes && strings.HasSuffix(r.Error, " characters)") { // the worker has truncated it, perhaps inside a token
		r.Error = b.Gate.Truncate(r.Error, maxErrorBytes) + "… (" + rest + ")"
	}
	r.Error = b.middle(r.Error, maxErrorBytes+200, rest)
	r.Traceback = b.middle(r.Traceback, maxTraceBytes, rest)
	r.Stderr = b.middle(r.Stderr, maxStderrBytes, rest)
}

// limitStderr truncates what a successful execution wrote to stderr. If that removes anything, the
// complete text is stored in a file.
func (b Builder) limitStderr(ctx context.Context, r *Result) {
	if len(r.Stderr) <= maxNoteBytes {
		return
	}
	rest := "the complete text could not be stored"
	if b.put(ctx, b.name(".stderr.txt"), []byte(r.Stderr)) == nil {
		rest = "the complete text is in " + b.path(".stderr.txt")
	}
	r.Stderr = b.middle(r.Stderr, maxNoteBytes, rest)
}

// middle removes the middle of a text of more than n bytes: in a traceback, both ends
// matter.
func (b Builder) middle(text string, n int, rest string) string {
	if len(text) <= n {
		return text
	}
	begin, end := b.Gate.Truncate(text, n/2), text[len(b.Gate.Truncate(text, len(text)-n/2)):]
	return begin + fmt.Sprintf("… (%d bytes cut; %s) …", len(text)-n, rest) + strings.ToValidUTF8(end, "")
}

// PromoteTokens replaces tokens that only the execution's interpreter knows by ones that
// remain valid. It is called once, when the result is complete.
func (b Builder) PromoteTokens(ctx context.Context, r *Result) error {
	if !b.Gate.Strict() {
		return nil
	}
	ctx = context.WithoutCancel(ctx)
	texts := []*string{&r.Error, &r.ErrorType, &r.Hint, &r.Traceback, &r.Stderr}
	for i := range r.Output {
		texts = append(texts, &r.Output[i])
	}
	if r.PlanEndsAt != nil {
		texts = append(texts, &r.PlanEndsAt.Note)
	}
	for _, t := range texts {
		var err error
		if *t, err = b.Gate.Tokens().Promote(ctx, *t); err != nil {
			return err
		}
	}
	values := []*json.RawMessage{&r.Value}
	for i := range r.Plan {
		values = append(values, &r.Plan[i].Args)
	}
	for _, v := range values {
		text, err := b.Gate.Tokens().Promote(ctx, string(*v))
		if err != nil {
			return err
		}
		if *v != nil {
			*v = json.RawMessage(text)
		}
	}
	return nil
}
