package wire

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
)

// Clients give up after a minute without a notification.
func TestLongCallsReportThatTheyRun(t *testing.T) {
	for version, meta := range map[string]string{"2025-11-25": "",
		"2026-07-28": "," + strings.TrimSuffix(strings.TrimPrefix(modern, `"_meta":{`), "}")} {
		t.Run(version, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				slow := func(ctx context.Context, c Call) (redact.Redacted, error) {
					time.Sleep(50 * time.Second)
					note, err := gate.Redact(ctx, "half")
					if err != nil {
						return note, err
					}
					if c.Progress != nil {
						if err := c.Progress(ctx, 1, 2, note); err != nil {
							return note, err
						}
					}
					time.Sleep(20 * time.Second)
					return note, nil
				}
				c := dial(t, Config{Tools: []Tool{{Name: "slow", Schema: json.RawMessage(schema), Handle: slow}}})
				c.handshake()
				c.send(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"slow","arguments":{},"_meta":{"progressToken":"p"%s}}}`, meta)
				last, messages := 0.0, []string{}
				for {
					a := c.read()
					if a.Method == "" {
						break
					}
					var p struct {
						ProgressToken string
						Progress      float64
						Message       string
					}
					if err := json.Unmarshal(a.Params, &p); err != nil || a.Method != "notifications/progress" || p.ProgressToken != "p" ||
						p.Progress <= last {
						t.Errorf("%s", a.raw)
					}
					last, messages = p.Progress, append(messages, p.Message)
				}
				if got, want := strings.Join(messages, ", "),
					`running for 15s, running for 30s, running for 45s, half, running for 1m5s`; got != want {
					t.Errorf("got %s, want %s", got, want)
				}
				c.send(`{"jsonrpc":"2.0","id":8,"method":"tools/call","params":{"name":"slow","arguments":{}}}`)
				if a := c.read(); a.Method != "" {
					t.Errorf("without a token: %s", a.raw)
				}
			})
		})
	}
}
