package wire

import (
	"encoding/json"
	"log/slog"
	"strings"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/logtest"
)

const methodNotFound = -32601

func TestUndeclaredMethodsAreRejected(t *testing.T) {
	c := dial(t, Config{Tools: []Tool{{Name: "echo", Schema: json.RawMessage(schema), Handle: echo}}})
	c.handshake()
	for _, method := range []string{"resources/list", "resources/templates/list", "resources/read",
		"resources/subscribe", "completion/complete", "logging/setLevel"} {
		for version, meta := range map[string]string{"2025-11-25": "", "2026-07-28": "," + modern} {
			c.send(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{"name":"x","uri":"test://x","level":"debug","ref":{"type":"ref/prompt","name":"x"},"argument":{"name":"a","value":"b"}%s}}`, method, meta)
			if a := c.read(); a.Error == nil || a.Error.Code != methodNotFound {
				t.Errorf("%s, %s: %s", version, method, a.raw)
			}
		}
	}
}

// Some clients list prompts without looking at the capabilities.
func TestListOfPromptsIsEmpty(t *testing.T) {
	c := dial(t, Config{Tools: []Tool{{Name: "echo", Schema: json.RawMessage(schema), Handle: echo}}})
	c.handshake()
	for version, meta := range map[string]string{"2025-11-25": "", "2026-07-28": modern} {
		c.send(`{"jsonrpc":"2.0","id":1,"method":"prompts/list","params":{%s}}`, meta)
		if a := c.read(); a.Error != nil || !strings.Contains(a.raw, `"prompts":[]`) {
			t.Errorf("%s: %s", version, a.raw)
		}
	}
}

func TestClientMistakesAreLoggedAtDebug(t *testing.T) {
	for level, logged := range map[slog.Level]bool{slog.LevelWarn: false, slog.LevelDebug: true} {
		var log logtest.Log
		c := dial(t, Config{Log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: level}))})
		c.handshake()
		for i, mistake := range []string{
			`{"jsonrpc":"2.0","id":1,"method":"ping","params":{` + modern + `}}`, // does not exist in that version
			`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`,
		} {
			c.send("%s", mistake)
			if a := c.read(); a.Error == nil {
				t.Errorf("mistake %d: %s", i, a.raw)
			}
		}
		if strings.Contains(log.String(), "level=ERROR") || strings.Contains(log.String(), "level=DEBUG") != logged {
			t.Errorf("at %v the log has:\n%s", level, log.String())
		}
	}
}
