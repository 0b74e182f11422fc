package cli

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/sandpiper-mcp/sandpiper/internal/daemon"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog"
)

// WithTools calls f with a daemon and its catalog. It first lists the tools of servers
// whose tools have never been listed.
func WithTools(ctx context.Context, env *Env, f func(*daemon.Daemon, *catalog.Snapshot) error) error {
	_, err := WithToolsAndUnlisted(ctx, env, f)
	return err
}

// WithToolsAndUnlisted is like WithTools. It also returns the number of servers whose tools
// could not be listed.
func WithToolsAndUnlisted(ctx context.Context, env *Env, f func(*daemon.Daemon, *catalog.Snapshot) error) (unlisted int, err error) {
	d, err := OpenDaemon(env, Options{Quiet: true})
	if err != nil {
		return 0, err
	}
	defer d.Close()
	var names []string
	for _, s := range d.Servers.Catalog.Now().Servers {
		if s.Connected && s.Listed.IsZero() {
			names = append(names, s.Name)
		}
	}
	all := ListTools(ctx, env, d, names)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if err := all[name].Err; err != nil {
			unlisted++
			env.Warn(fault.Message(err))
		}
	}
	return unlisted, f(d, d.Servers.Catalog.Now())
}

// Listed is the result of listing the tools of one server.
type Listed struct {
	Change catalog.Change
	Err    error
}

// ListTools lists the tools of servers concurrently. On a terminal it shows the names of the
// servers for which it still waits.
func ListTools(ctx context.Context, env *Env, d *daemon.Daemon, names []string) map[string]Listed {
	var mu sync.Mutex
	var wg sync.WaitGroup
	all := map[string]Listed{}
	for _, name := range names {
		wg.Go(func() {
			change, err := d.Servers.List(ctx, name)
			mu.Lock()
			defer mu.Unlock()
			all[name] = Listed{change, withoutRetry(err)}
		})
	}
	defer env.WorkingOn(func() string {
		mu.Lock()
		defer mu.Unlock()
		waiting := slices.DeleteFunc(slices.Sorted(slices.Values(names)), func(name string) bool { _, ok := all[name]; return ok })
		return "waiting for " + strings.Join(waiting, ", ")
	})()
	wg.Wait()
	return all
}

// withoutRetry removes the time of the next attempt, which a command that ends does not make.
func withoutRetry(err error) error {
	e, ok := errors.AsType[*fault.Error](err)
	if !ok {
		return err
	}
	changed := *e
	changed.Message, _, _ = strings.Cut(e.Message, "; the next attempt is in ")
	return &changed
}

// ChangeSummary describes the difference between the old and the new list of tools, with
// "; " before each part.
func ChangeSummary(c catalog.Change) string {
	text := ""
	for _, part := range []struct {
		label string
		names []string
	}{{"new", c.Added}, {"removed", c.Removed}, {"quarantined", c.Quarantined}} {
		if n := len(part.names); n > 0 {
			some := part.names[:min(5, n)]
			text += "; " + part.label + ": " + VisibleName(strings.Join(some, ", "))
			if n > len(some) {
				text += " …"
			}
		}
	}
	return text
}
