package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/daemon"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog"
)

// withTools calls f with a daemon and its catalog. It first lists the tools of servers
// whose tools have never been listed.
func (a *app) withTools(ctx context.Context, f func(*daemon.Daemon, *catalog.Snapshot) error) error {
	_, err := a.withToolsAndUnlisted(ctx, f)
	return err
}

// withToolsAndUnlisted is like withTools. It also returns the number of servers whose tools
// could not be listed.
func (a *app) withToolsAndUnlisted(ctx context.Context, f func(*daemon.Daemon, *catalog.Snapshot) error) (unlisted int, err error) {
	d, err := a.daemon(options{quiet: true})
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
	all := a.listServers(ctx, d, names)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if err := all[name].err; err != nil {
			unlisted++
			a.warn(fault.Message(err))
		}
	}
	return unlisted, f(d, d.Servers.Catalog.Now())
}

// listResult is the result of listing one server.
type listResult struct {
	change catalog.Change
	err    error
}

// listServers lists the tools of servers concurrently. On a terminal it shows the names of the
// servers for which it still waits.
func (a *app) listServers(ctx context.Context, d *daemon.Daemon, names []string) map[string]listResult {
	var mu sync.Mutex
	var wg sync.WaitGroup
	all := map[string]listResult{}
	for _, name := range names {
		wg.Go(func() {
			change, err := d.Servers.List(ctx, name)
			mu.Lock()
			defer mu.Unlock()
			all[name] = listResult{change, withoutRetry(err)}
		})
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		wg.Wait()
	}()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for began := time.Now(); ; {
		select {
		case <-done:
			if isTerminal(a.stderr) && time.Since(began) > time.Second {
				fmt.Fprint(a.stderr, "\r\x1b[K")
			}
			return all
		case <-tick.C:
			if !isTerminal(a.stderr) {
				continue
			}
			mu.Lock()
			waiting := slices.DeleteFunc(slices.Sorted(slices.Values(names)), func(name string) bool { _, ok := all[name]; return ok })
			mu.Unlock()
			line := fmt.Sprintf("waiting for %s (%s)", visibleName(strings.Join(waiting, ", ")), time.Since(began).Round(time.Second))
			fmt.Fprintf(a.stderr, "\r%s\x1b[K", styleFor(a.stderr).dim(strings.TrimSpace(fit(line, 76))))
		}
	}
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

// changeSummary describes the difference between the old and the new list of tools, with
// "; " before each part.
func changeSummary(c catalog.Change) string {
	text := ""
	for _, part := range []struct {
		label string
		names []string
	}{{"new", c.Added}, {"removed", c.Removed}, {"quarantined", c.Quarantined}} {
		if n := len(part.names); n > 0 {
			some := part.names[:min(5, n)]
			text += "; " + part.label + ": " + visibleName(strings.Join(some, ", "))
			if n > len(some) {
				text += " …"
			}
		}
	}
	return text
}
