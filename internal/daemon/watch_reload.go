package daemon

import (
	"context"
	"os"
	"slices"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/upstream"
)

// watchReload announces this daemon and reloads its configuration when a signal arrives or a
// command requests it, until ctx ends. Signals that arrive during a reload cause one more.
func (d reloader) watchReload(ctx context.Context) {
	dir := d.data.instances()
	i := Instance{PID: os.Getpid(), Started: time.Now().UTC(), Files: append([]string{}, d.cfg.Files...), Request: dir.request(),
		Servers: d.serverStates()}
	update, stop, err := dir.announce(i)
	if err != nil { // SIGHUP still works
		d.log.Warn("this daemon is not visible to commands, which cannot make it reload", "error", err)
		update, stop = func(Instance) error { return nil }, func() error { return nil }
	}
	defer stop()
	save := func() {
		if err := update(i); err != nil {
			d.log.Warn("record the state for commands", "error", err)
		}
	}
	tick := time.NewTicker(reloadPoll)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-d.cfg.Reloads:
		case <-tick.C:
			d.Servers.follow(ctx)
			if now := d.serverStates(); !slices.Equal(now, i.Servers) {
				i.Servers = now
				save()
			}
			if dir.request() == i.Request {
				continue
			}
		}
		request := dir.request() // before the configuration is read
		i.Request, i.Reloaded, i.Error = request, time.Now().UTC(), ""
		if err := d.access.reopen(); err != nil {
			d.log.Error("reopen the access log", "error", err)
		}
		if _, i.Warnings, err = d.reload(ctx); err != nil {
			i.Error = err.Error()
		}
		i.Failed, i.Servers = d.unavailable(), d.serverStates()
		save()
	}
}

// serverStates returns the states of the connections that tenants share.
func (d reloader) serverStates() (all []ServerState) {
	words := map[upstream.Phase]string{upstream.Stopped: "not_connected", upstream.Starting: "connecting", upstream.Ready: "connected",
		upstream.Failed: "failed"}
	for _, s := range d.Servers.Set.States() {
		all = append(all, ServerState{s.Name, words[s.State], s.Since.UTC().Truncate(time.Millisecond), s.Reason, s.Hint})
	}
	return all
}

// unavailable returns the names of the servers that could not be started.
func (d reloader) unavailable() (names []string) {
	for _, s := range d.Servers.Set.States() {
		if s.State == upstream.Failed {
			names = append(names, s.Name)
		}
	}
	return names
}
