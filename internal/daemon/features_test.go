package daemon_test

import (
	"context"
	"encoding/json"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/config"
	"github.com/sandpiper-mcp/sandpiper/internal/daemon"
	"github.com/sandpiper-mcp/sandpiper/internal/execution"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/background"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

// probeSettings are the settings of a feature for tests.
type probeSettings struct {
	Keep time.Duration `key:"probe.keep,tenant" default:"1h" project:"lower"`
}

// A started feature gets its settings, with those of a tenant, and the core answers it.
func TestFeatureUsesTheCore(t *testing.T) {
	var core daemon.Core
	started := new(int)
	f := daemon.Feature{
		Name:   "probe",
		Config: config.Section{Settings: func() any { return new(probeSettings) }},
		Start: func(c daemon.Core) (daemon.Part, error) {
			core = c
			return daemon.Part{
				Value: started,
				Wrong: func(context.Context) []error { return []error{fault.New(fault.Invalid, "probe is wrong")} },
				Close: func() error { *started++; return nil },
				Programs: background.Programs{
					Kind: "probe",
					Check: func(context.Context, *home.Home, string, json.RawMessage) error {
						return fault.New(fault.NotFound, "there is no probe")
					},
					Request: func(name string) (execution.Request, error) { return execution.Request{Code: strconv.Quote(name)}, nil },
				},
			}, nil
		},
	}
	dir := t.TempDir()
	cfg := daemon.Config{Config: *settings(t, dir, "tiers: {free: {tenants: [alice], probe: {keep: 10m}}}\n", f.Config),
		Features: []daemon.Feature{f}, Version: "v0", Backend: fakes}
	cfg.DataDir = filepath.Join(dir, "data")
	d := start(t, cfg)
	alice, err := tenant.Parse("alice")
	if err != nil {
		t.Fatal(err)
	}
	for id, want := range map[tenant.ID]time.Duration{alice: 10 * time.Minute, tenant.Local: time.Hour} {
		if got := config.Of[probeSettings](core.ConfigOf(id)).Keep; got != want {
			t.Errorf("%s keeps %s, want %s", id, got, want)
		}
	}
	if got := config.Of[probeSettings](core.Config()).Keep; got != time.Hour {
		t.Errorf("the daemon keeps %s", got)
	}
	if !core.HasTool("execute_code") || core.HasTool("probe") {
		t.Error("HasTool is wrong about tools")
	}
	if daemon.Started[*int](d) != started {
		t.Error("another value was started")
	}
	if all := daemon.Wrong(t.Context(), d); len(all) != 1 || !strings.Contains(all[0].Error(), "probe is wrong") {
		t.Errorf("%v", all)
	}
	h, err := core.Homes.Acquire(t.Context(), alice)
	if err != nil {
		t.Fatal(err)
	}
	for kind, want := range map[string]string{"probe": "there is no probe", "workflow": "this program has no workflows"} {
		p := core.Programs(kind)
		if err := p.Check(t.Context(), h, "report", nil); fault.Message(err) != want {
			t.Errorf("a %s that does not exist: %v", kind, err)
		}
		text, err := p.Stored("report", nil, "from a test")
		if (err == nil) != (kind == "probe") || err == nil && !strings.Contains(string(text), `\"report\"`) {
			t.Errorf("the request of a %s: %s, %v", kind, text, err)
		}
	}
	if err := h.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil || *started != 1 {
		t.Errorf("closed %d times, %v", *started, err)
	}
}
