package schedule

import (
	"context"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/config"
	"github.com/sandpiper-mcp/sandpiper/internal/daemon"
	"github.com/sandpiper-mcp/sandpiper/internal/feature"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/store"
)

const name = "schedule"

// Feature returns the feature: schedules of the configuration and of agents, the tools with which agents
// create, list and delete them, and the command schedules.
func Feature() feature.Feature {
	return feature.Feature{
		Feature: daemon.Feature{
			Name:   name,
			Config: config.Section{Settings: func() any { return new(Settings) }},
			Home: home.Feature{
				Name:    name,
				Tables:  []store.Migration{{Number: 1, Name: "initial", SQL: tables}},
				Pending: "EXISTS (SELECT 1 FROM schedules)",
				Refresh: func(ctx context.Context, h *home.Home) error { return Open(h).Settle(ctx, time.Now()) },
			},
			Start: start,
		},
		Docs:     "schedules.md",
		Commands: commands,
	}
}

func start(core daemon.Core) (daemon.Part, error) {
	s := &Schedules{core: core}
	loop := scheduleLoop{Schedules: s}
	return daemon.Part{
		Value:  s,
		Tools:  Tools(s),
		Before: loop.pass,
		Accept: s.checkAll,
		Wrong:  s.errors,
	}, nil
}
