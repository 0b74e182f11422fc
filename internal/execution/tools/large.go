package tools

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/guardrail"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/rawjson"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/shape"
)

// largeAnswer describes an answer that is too large for memory. The worker converts it
// into a LargeAnswer.
type largeAnswer struct {
	Path    string        `json:"path"`
	Bytes   int           `json:"bytes"`
	JSON    bool          `json:"json"` // the file is JSON, otherwise text
	Preview shape.Preview `json:"preview"`
}

// storeLarge returns a function that stores a large answer of a tool in the workspace, or
// nil if such answers must be refused: a dry run writes no files, in mode strict code must
// not see the values in the file, and hooks decide on complete answers.
func (h *Host) storeLarge(ref tool.Ref) func(context.Context, []byte) (json.RawMessage, error) {
	if h.Owner.Plan != nil || h.Owner.Gate.Strict() || h.Guard.HasHook(guardrail.AfterCall) {
		return nil
	}
	return func(ctx context.Context, content []byte) (json.RawMessage, error) {
		a, err := describeLarge(content)
		if err != nil {
			return nil, err
		}
		if err := h.inspectLarge(ctx, ref, content, a.JSON); err != nil {
			return nil, err
		}
		name := fmt.Sprintf("%s/%s.%s.%s", home.ResultsDir, h.Execution, rand.Text()[:8],
			map[bool]string{true: "json", false: "txt"}[a.JSON])
		if err := h.Owner.Home.Workspace.Write(ctx, name, content); err != nil {
			return nil, fault.Wrap(fault.KindOf(err), err, "sent an answer of %d bytes, which could not be stored in the workspace: %s",
				len(content), fault.Message(err)).
				WithHint("%s", fault.Hint(err))
		}
		a.Path = "/workspace/" + name
		return json.Marshal(a)
	}
}

// maxTextPreview is how many bytes of text a preview contains.
const maxTextPreview = 2000

// describeLarge describes JSON or text.
func describeLarge(content []byte) (a largeAnswer, err error) {
	a.Bytes, a.JSON = len(content), rawjson.Valid(content)
	if a.JSON {
		a.Preview, err = shape.Describe(content, 0, nil)
		return a, err
	}
	begin := bytes.ToValidUTF8(content[:min(maxTextPreview, len(content))], nil)
	chars := utf8.RuneCount(content)
	a.Preview = shape.Preview{Type: "string", Chars: &chars}
	a.Preview.Value, err = json.Marshal(string(begin))
	return a, err
}

const (
	// inspectedPart is the size of the parts in which a large answer is inspected.
	inspectedPart = 1 << 20
	// repeatedPart is how much of the end of a part the next one repeats, so that a value
	// on their border is complete in one of them.
	repeatedPart = 8 << 10
)

// maxIndexed is how much of a large answer is added to the index of the vault, which is in
// memory: as much as of the largest answer in memory. Values after it are found by their
// form when they leave, like those of any other file.
const maxIndexed = 32 << 20

// inspectLarge does what is done with every answer before code gets it, in parts: it
// looks for prompt injection, and adds values to the index of the vault. An answer with
// text in the form of tokens is refused, because they would have to be marked in the file.
func (h *Host) inspectLarge(ctx context.Context, ref tool.Ref, content []byte, isJSON bool) error {
	for at := 0; at < len(content); {
		end, next := partEnd(content[at:])
		part := content[at : at+end]
		if isJSON {
			part = rawjson.Unescape(part)
		}
		text := strings.ToValidUTF8(string(part), "")
		at += next
		if kinds := h.Guard.InjectionKinds(text); len(kinds) > 0 {
			h.Owner.OnInjection(ref, kinds)
		}
		marked, err := h.Owner.Gate.Ingester().LargePart(ctx, text, at <= maxIndexed)
		if err != nil {
			return err
		}
		if marked {
			return fault.New(fault.Exhausted, "sent an answer of %d bytes that contains text in the form of privacy tokens, which is "+
				"possible only in smaller answers", len(content)).
				WithHint("request less data per call")
		}
	}
	return nil
}

// partEnd returns the length of the part that content begins with, and where the next part
// begins: after a line or a value if possible, since the beginning of a value would be
// indexed like a whole one.
func partEnd(content []byte) (end, next int) {
	if len(content) <= inspectedPart {
		return len(content), len(content)
	}
	end = inspectedPart
	for _, mark := range []string{"\n", `",`, "},", "],"} {
		if i := bytes.LastIndex(content[end-repeatedPart:inspectedPart], []byte(mark)); i >= 0 {
			end += i + len(mark) - repeatedPart
			break
		}
	}
	next = end - repeatedPart
	if i := bytes.IndexAny(content[next:next+repeatedPart/2], "\n,"); i >= 0 {
		next += i + 1
	}
	return end, next
}
