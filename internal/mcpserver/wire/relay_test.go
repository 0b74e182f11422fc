package wire

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/logtest"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
)

// relaying is a Relay that answers tools/call with f and whose lists never change.
func relaying(f func(context.Context, Request) (redact.Redacted, error)) *Relay {
	return &Relay{
		Answers:  map[string]func(context.Context, Request) (redact.Redacted, error){"tools/call": f},
		Versions: func() Versions { return Versions{} },
	}
}

func TestRelayedResultsAreUnchanged(t *testing.T) {
	const result = `{"content":[{"type":"new","n":12345678901234567890}],"structuredContent":{"n":1e400},"_meta":{"a":1,"io.modelcontextprotocol/x":2}}`
	c := dial(t, Config{Relay: relaying(func(ctx context.Context, r Request) (redact.Redacted, error) {
		var p struct {
			Name      string
			Arguments json.RawMessage
		}
		if err := json.Unmarshal(r.Params, &p); err != nil || p.Name != "any" || string(p.Arguments) != `{"n":98765432109876543210}` {
			t.Errorf("params %s, %v", r.Params, err)
		}
		return gate.Redact(ctx, json.RawMessage(result))
	})})
	c.handshake()
	c.call(1, "any", `{"n":98765432109876543210}`)
	if a := c.read(); string(a.result) != `{"_meta":{"a":1},"content":[{"type":"new","n":12345678901234567890}],"structuredContent":{"n":1e400}}` {
		t.Errorf("got %s", a.raw)
	}
}

func TestRelayErrorsAreGeneric(t *testing.T) {
	var log logtest.Log
	c := dial(t, Config{Log: newLog(&log), Relay: relaying(func(ctx context.Context, r Request) (redact.Redacted, error) {
		switch {
		case bytes.Contains(r.Params, []byte("panics")):
			panic("secret detail")
		case bytes.Contains(r.Params, []byte("unsealed")):
			return redact.Redacted{}, nil
		case bytes.Contains(r.Params, []byte("no object")):
			return gate.Redact(ctx, []string{"secret detail"})
		}
		return redact.Redacted{}, errors.New("secret detail")
	})})
	c.handshake()
	for _, how := range []string{"panics", "unsealed", "no object", "fails"} {
		c.call(1, how, `{}`)
		if a := c.read(); a.Error == nil || strings.Contains(a.raw, "secret") {
			t.Errorf("%s: %s", how, a.raw)
		}
	}
	if got := strings.Count(log.String(), "level=ERROR"); got != 4 {
		t.Errorf("%d errors in the log: %s", got, log.String())
	}
}

// A drain ends subscriptions at once, but waits for calls.
func TestDrainWaitsForRelayedCalls(t *testing.T) {
	started, release := make(chan struct{}), make(chan struct{})
	s, err := New(Config{Name: "n", Version: "1", Relay: relaying(func(ctx context.Context, _ Request) (redact.Redacted, error) {
		close(started)
		<-release
		return gate.Redact(ctx, map[string]any{"content": []any{map[string]string{"type": "text", "text": fmt.Sprint(ctx.Err())}}})
	})})
	if err != nil {
		t.Fatal(err)
	}
	w := serveWebOf(t, s.HTTP(HTTPConfig{}))
	res := w.call(t.Context(), older(w.connect()), "slow")
	<-started
	drained := make(chan error, 1)
	go func() { drained <- w.http.Drain(t.Context()) }()
	<-w.http.subscriptions.alive.Done()
	close(release)
	if got := w.text(res); got != "<nil>" {
		t.Errorf("the call ended with %q", got)
	}
	<-drained
}

func TestRelayReplacesToolsAndResources(t *testing.T) {
	_, err := New(Config{Name: "n", Version: "1", Relay: relaying(nil),
		Tools: []Tool{{Name: "a", Schema: json.RawMessage(schema), Handle: echo}}})
	if err == nil {
		t.Error("both were accepted")
	}
}
