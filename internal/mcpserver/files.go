package mcpserver

import (
	"cmp"
	"context"
	"encoding/base64"
	"strings"
	"unicode/utf8"

	"github.com/sandpiper-mcp/sandpiper/internal/access"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/home/workspace"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver/builtin"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver/wire"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
)

// Page sizes of read_workspace_file in bytes. The default fits into a conversation.
const (
	page    = 64 << 10
	maxPage = 256 << 10
)

// maxNames limits the names in an answer of list_workspace_files.
const maxNames = 1000

func fileTools() []builtin.Tool {
	return []builtin.Tool{{
		Name: "write_workspace_file", Profile: builtin.Standard, Scope: access.Files,
		Description: "Write a text file, replacing any.",
		Params: []builtin.Param{{Name: "filename", Kind: builtin.Text, Required: true, Source: builtin.FileNames},
			{Name: "content", Kind: builtin.Text, Required: true}},
		Hints: wire.Hints{Destructive: true, Idempotent: true},
		Run:   builtin.Handle(writeFile),
	}, {
		Name: "read_workspace_file", Profile: builtin.Standard, Scope: access.Files, MaxChars: 400_000,
		Description: "Read a file; continue at next_offset.",
		Params: []builtin.Param{
			{Name: "filename", Kind: builtin.Text, Required: true, Source: builtin.FileNames},
			{Name: "offset", Kind: builtin.Integer},
			{Name: "limit", Kind: builtin.Integer, Description: "Bytes"},
		},
		Hints: wire.Hints{ReadOnly: true},
		Run:   builtin.Handle(readPage),
	}, {
		Name: "list_workspace_files", Profile: builtin.Standard, Scope: access.Files,
		Description: "List files, recursively.",
		Params:      []builtin.Param{{Name: "subpath", Kind: builtin.Text, Default: "."}},
		Hints:       wire.Hints{ReadOnly: true},
		Run:         listFiles,
	}}
}

func writeFile(ctx context.Context, c builtin.Call, args struct{ Filename, Content string }) (redact.Message, error) {
	if err := cmp.Or(c.Name(ctx, &args.Filename), c.Values(ctx, &args.Content)); err != nil {
		return redact.Message{}, err
	}
	if err := checkFileBack(ctx, c.Home, c.Gate(), args.Filename, args.Content); err != nil {
		return redact.Message{}, err
	}
	if err := c.Home.Workspace.Write(ctx, args.Filename, []byte(args.Content)); err != nil {
		return redact.Message{}, err
	}
	return builtin.Did("Written %d bytes to %s", len(args.Content), args.Filename)
}

// filePage is the answer of read_workspace_file.
type filePage struct {
	Success  bool   `json:"success"`
	Filename string `json:"filename"`
	Content  string `json:"content"`
	Encoding string `json:"encoding,omitempty"` // of the file, if its text is decoded; base64, if the page is not text
	Size     int64  `json:"size"`               // of the whole file
	Offset   int64  `json:"offset,omitempty"`
	Next     int64  `json:"next_offset,omitempty"`
}

func readPage(ctx context.Context, c builtin.Call, args struct {
	Filename string
	Offset   float64
	Limit    *float64
}) (redact.Message, error) {
	if err := c.Name(ctx, &args.Filename); err != nil {
		return redact.Message{}, err
	}
	limit := int64(page)
	if args.Limit != nil {
		limit = min(builtin.Int64(*args.Limit), maxPage)
		if limit < 1 {
			return redact.Message{}, fault.New(fault.Invalid, "limit is %d; it must be between 1 and %d bytes", limit, maxPage)
		}
	}
	if err := holdFile(ctx, c.Home, args.Filename, limit); err != nil {
		return redact.Message{}, err
	}
	p, err := c.Home.Workspace.Read(ctx, args.Filename, builtin.Int64(args.Offset), limit)
	if err != nil {
		return redact.Message{}, err
	}
	answer := filePage{
		Success:  true,
		Filename: args.Filename,
		Content:  string(p.Content),
		Size:     p.Size,
		Offset:   p.Offset,
		Next:     p.Next,
	}
	u, isWide, err := encodingOf(ctx, c.Home.Workspace, args.Filename, p)
	if err != nil {
		return redact.Message{}, err
	}
	if isWide && !hidesPrivate(c.Gate(), p) {
		around, p, err := decodedPage(ctx, c.Home.Workspace, args.Filename, u, p)
		answer.Content, answer.Encoding, answer.Offset, answer.Next = redact.PagePlaceholder, u.Name, p.Offset, p.Next
		return redact.Message{Body: answer, Page: &around}, err
	}
	if !utf8.Valid(p.Content) {
		answer.Content, answer.Encoding = base64.StdEncoding.EncodeToString(p.Content), "base64"
		return redact.Message{Body: answer}, nil
	}
	if p.Offset == 0 && p.Next == 0 {
		return redact.Message{Body: answer}, nil
	}
	around, err := pageContext(ctx, c.Home, args.Filename, p)
	answer.Content = redact.PagePlaceholder
	return redact.Message{Body: answer, Page: &around}, err
}

// pageContext returns a page with its context: the first line of the file, and whole
// lines from margin bytes before the page.
func pageContext(ctx context.Context, home *home.Home, name string, p workspace.Page) (redact.Page, error) {
	from := max(0, p.Offset-margin)
	all, err := home.Workspace.Read(ctx, name, from, p.Offset-from+int64(len(p.Content))+margin)
	if err != nil {
		return redact.Page{}, err
	}
	start := int(p.Offset - all.Offset)
	end := start + len(p.Content)
	if start < 0 || end > len(all.Content) || string(all.Content[start:end]) != string(p.Content) { // the file has changed
		return redact.Page{Text: string(p.Content), End: len(p.Content)}, nil
	}
	before := strings.ToValidUTF8(string(all.Content[:start]), "?")
	if _, lines, ok := strings.Cut(before, "\n"); ok && all.Offset > 0 {
		first, err := firstLine(ctx, home, name)
		if err != nil {
			return redact.Page{}, err
		}
		before = first + lines
	}
	text := before + string(p.Content)
	return redact.Page{Text: text + strings.ToValidUTF8(string(all.Content[end:]), "?"), Start: len(before), End: len(text)}, nil
}

// firstLine returns the first line of a file, which may have column names; "" if it is
// longer than header.
func firstLine(ctx context.Context, home *home.Home, name string) (string, error) {
	p, err := home.Workspace.Read(ctx, name, 0, header)
	if err != nil {
		return "", err
	}
	line, _, ok := strings.Cut(string(p.Content), "\n")
	if !ok || !utf8.ValidString(line) {
		return "", nil
	}
	return line + "\n", nil
}

// fileList is the answer of list_workspace_files.
type fileList struct {
	Success   bool     `json:"success"`
	Path      string   `json:"path"`
	Files     []string `json:"files"`
	Count     int      `json:"count"`               // of all files found
	Truncated bool     `json:"truncated,omitempty"` // Files is incomplete
}

func listFiles(ctx context.Context, c builtin.Call) (redact.Message, error) {
	args := struct{ Subpath string }{"."}
	if err := c.Read(&args); err != nil {
		return redact.Message{}, err
	}
	if err := c.Name(ctx, &args.Subpath); err != nil {
		return redact.Message{}, err
	}
	l, err := c.Home.Workspace.List(ctx, args.Subpath)
	if err != nil {
		return redact.Message{}, err
	}
	answer := fileList{true, args.Subpath, l.Files, len(l.Files), l.Truncated}
	if len(l.Files) > maxNames {
		answer.Files, answer.Truncated = l.Files[:maxNames], true
	}
	return redact.Message{Body: answer}, nil
}
