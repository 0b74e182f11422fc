package wire

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"strings"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/logtest"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
)

const modern = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"}}`

func TestAllRevisionsOnOneConnection(t *testing.T) {
	c := dial(t, Config{Tools: []Tool{{Name: "echo", Schema: json.RawMessage(schema), Handle: echo}}})
	c.send(`{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{%s}}`, modern)
	if a := c.read(); a.Error != nil || !strings.Contains(a.raw, "2026-07-28") || !strings.Contains(a.raw, "2025-11-25") {
		t.Errorf("discover: %s", a.raw)
	}
	c.send(`{"jsonrpc":"2.0","id":2,"method":"tools/list","params":{%s}}`, modern)
	if a := c.read(); a.Result.CacheScope != "private" || len(a.Result.Tools) != 1 {
		t.Errorf("tools/list: %s", a.raw)
	}
	c.send(`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"echo","arguments":{"a":1},%s}}`, modern)
	if a := c.read(); a.Error != nil || a.Result.Content[0].Text != `{"a":1}` {
		t.Errorf("tools/call: %s", a.raw)
	}
}

func TestUnredactedResultsAreRejected(t *testing.T) {
	var log logtest.Log
	c := dial(t, Config{Log: newLog(&log), Tools: []Tool{
		{Name: "unsealed", Schema: json.RawMessage(schema),
			Handle: func(context.Context, Call) (redact.Redacted, error) { return redact.Redacted{}, nil }},
		{Name: "fails", Schema: json.RawMessage(schema),
			Handle: func(context.Context, Call) (redact.Redacted, error) {
				return redact.Redacted{}, errors.New("secret detail")
			}},
		{Name: "panics", Schema: json.RawMessage(schema),
			Handle: func(context.Context, Call) (redact.Redacted, error) { panic("secret detail") }},
	}})
	c.handshake()
	for _, tool := range []string{"unsealed", "fails", "panics"} {
		c.call(1, tool, `{}`)
		a := c.read()
		if a.Error != nil || !a.Result.IsError {
			t.Fatalf("%s: %s", tool, a.raw)
		}
		var body struct {
			Success bool
			Error   string
		}
		text := a.Result.Content[0].Text
		if err := json.Unmarshal([]byte(text), &body); err != nil || body.Success || body.Error == "" || strings.Contains(text, "secret") {
			t.Errorf("%s: %s", tool, text)
		}
		if !strings.Contains(log.String(), tool) {
			t.Errorf("%s: not in the log: %s", tool, log.String())
		}
	}
}

func TestResultContent(t *testing.T) {
	long := strings.Repeat("x", longText+1)
	png := []byte("\x89PNG\r\n\x1a\n")
	c := dial(t, Config{Tools: []Tool{{Name: "show", Schema: json.RawMessage(schema), MaxResultChars: 90_000,
		Handle: func(ctx context.Context, _ Call) (redact.Redacted, error) {
			return gate.Redact(ctx, redact.Message{Body: long, Images: []redact.Image{{MIME: "image/png", Data: png}}})
		}}}})
	c.handshake()
	c.send(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
	list := c.read()
	if meta, _ := list.Result.Tools[0]["_meta"].(map[string]any); meta[maxResultChars] != 90_000.0 {
		t.Errorf("tools/list: %s", list.raw)
	}
	c.call(2, "show", `{}`)
	a := c.read()
	if len(a.Result.Content) != 2 || a.Result.Content[0].Text != long || a.Result.Meta[maxResultChars] != 90_000.0 {
		t.Fatalf("got %.300s", a.raw)
	}
	if img := a.Result.Content[1]; img.Type != "image" || img.MIMEType != "image/png" || !bytes.Equal(img.Data, png) {
		t.Errorf("image: %+v", img)
	}
	if strings.Contains(a.raw, "structuredContent") {
		t.Error("the answer has structured content")
	}
}

func TestProgress(t *testing.T) {
	c := dial(t, Config{Tools: []Tool{{Name: "work", Schema: json.RawMessage(schema),
		Handle: func(ctx context.Context, call Call) (redact.Redacted, error) {
			if call.Progress == nil {
				return gate.Redact(ctx, "not asked")
			}
			half, _ := gate.Redact(ctx, "half")
			if err := call.Progress(ctx, 1, 2, half); err != nil {
				return redact.Redacted{}, err
			}
			if err := call.Progress(ctx, 2, 2, redact.Redacted{}); !errors.Is(err, redact.ErrNotRedacted) {
				return redact.Redacted{}, errors.New("an unsealed message left")
			}
			return gate.Redact(ctx, "done")
		}}}})
	c.handshake()
	c.call(1, "work", `{}`)
	if a := c.read(); a.Result.Content[0].Text != "not asked" {
		t.Errorf("got %s", a.raw)
	}
	for _, meta := range []string{`"_meta":{"progressToken":"p"}`, strings.Replace(modern, `{`, `{"progressToken":"p",`, 1)} {
		c.send(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"work","arguments":{},%s}}`, meta)
		note := c.read()
		if note.Method != "notifications/progress" ||
			!strings.Contains(string(note.Params), `"message":"half"`) || !strings.Contains(string(note.Params), `"progressToken":"p"`) {
			t.Errorf("got %s", note.raw)
		}
		if a := c.read(); a.Result.IsError || a.Result.Content[0].Text != "done" {
			t.Errorf("got %s", a.raw)
		}
	}
}

func TestNewRejectsInvalidConfig(t *testing.T) {
	ok := Tool{Name: "a", Schema: json.RawMessage(schema), Handle: echo}
	for name, cfg := range map[string]Config{
		"no name":    {Version: "1"},
		"no version": {Name: "n"},
		"twice":      {Name: "n", Version: "1", Tools: []Tool{ok, ok}},
		"no schema":  {Name: "n", Version: "1", Tools: []Tool{{Name: "a", Handle: echo}}},
		"no handler": {Name: "n", Version: "1", Tools: []Tool{{Name: "a", Schema: ok.Schema}}},
	} {
		if _, err := New(cfg); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func newLog(w io.Writer) *slog.Logger { return slog.New(slog.NewTextHandler(w, nil)) }
