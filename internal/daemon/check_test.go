package daemon_test

import (
	"strings"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/config"
	"github.com/sandpiper-mcp/sandpiper/internal/daemon"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// A server and an API with one name are refused by Check as by New.
func TestCheckRefusesOneNameForTwoServers(t *testing.T) {
	c := &config.Config{DataDir: t.TempDir(), Servers: []config.Server{{Name: "x", Command: "sh"}, {Name: "x", Command: "cat"}}}
	if _, err := daemon.Check(c, nil); err == nil || !strings.Contains(fault.Message(err), `two servers named "x"`) {
		t.Error(err)
	}
	c.Servers = c.Servers[:1]
	c.Servers[0].Command = "no-such-program"
	warnings, err := daemon.Check(c, nil)
	if err != nil || len(warnings) == 0 || !strings.Contains(strings.Join(warnings, "\n"), "server x: there is no program") {
		t.Errorf("%q %v", warnings, err)
	}
}
