package mcpserver

import (
	"context"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/home/workspace"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect/encoded"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
)

// margin is the context before and after a page that is scanned for values crossing
// its ends. A private key is the longest.
const margin = 20 << 10

// header is the maximum length of a first line with column names.
const header = 4 << 10

// encodingOf returns the encoding of a file in UTF-16 or UTF-32 that p is a page of.
func encodingOf(ctx context.Context, files *workspace.Files, name string, p workspace.Page) (u encoded.Unicode, ok bool, err error) {
	if p.Offset > 0 || len(p.Content) < encoded.MaxMark {
		if p, err = files.Read(ctx, name, 0, encoded.MaxMark); err != nil {
			return u, false, err
		}
	}
	u, ok = encoded.UnicodeOf(p.Content)
	return u, ok, nil
}

// hidesPrivate reports whether the mark of UTF-16 or UTF-32 at the start of a page hides private text in
// ASCII. Its zeros, which wide text has, become characters that no value contains.
func hidesPrivate(out *redact.Gate, p workspace.Page) bool {
	return out.ContainsPrivate("", strings.ReplaceAll(string(p.Content), "\x00", "\ue000"))
}

// decodedPage returns a page of such a file as text, with its context, and the page as it was
// extended to whole characters.
func decodedPage(ctx context.Context, files *workspace.Files, name string, u encoded.Unicode, p workspace.Page) (redact.Page,
	workspace.Page, error) {
	unit := int64(u.Unit)
	start, end := p.Offset/unit*unit, min((p.Offset+int64(len(p.Content))+unit-1)/unit*unit, p.Size)
	from := max(0, start/unit*unit-margin)
	all, err := files.Read(ctx, name, from, end-from+margin)
	if err != nil {
		return redact.Page{}, p, err
	}
	at := func(offset int64) int { return int(min(offset-from, int64(len(all.Content)))) }
	for start > from && isLowSurrogate(u, all.Content[at(start):]) {
		start -= unit
	}
	for end < p.Size && isLowSurrogate(u, all.Content[at(end):]) {
		end = min(end+unit, p.Size)
	}
	before := u.Decode(all.Content[:at(start)])
	if _, lines, ok := strings.Cut(before, "\n"); ok && from > 0 {
		head, err := files.Read(ctx, name, 0, header*unit)
		if err != nil {
			return redact.Page{}, p, err
		}
		if first, _, ok := strings.Cut(u.Decode(head.Content), "\n"); ok {
			before = first + "\n" + lines
		}
	}
	text := before + u.Decode(all.Content[at(start):at(end)])
	p.Offset, p.Next = start, end
	if end >= p.Size {
		p.Next = 0
	}
	return redact.Page{Text: text + u.Decode(all.Content[at(end):]), Start: len(before), End: len(text)}, p, nil
}

// isLowSurrogate reports whether text begins with the second half of a character in UTF-16.
func isLowSurrogate(u encoded.Unicode, text []byte) bool {
	if u.Unit != 2 || len(text) < 2 {
		return false
	}
	high := text[0]
	if strings.HasSuffix(u.Name, "le") {
		high = text[1]
	}
	return high >= 0xDC && high <= 0xDF
}
