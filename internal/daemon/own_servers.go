package daemon

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/sandpiper-mcp/sandpiper/internal/config"
	"github.com/sandpiper-mcp/sandpiper/internal/store/secret"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream"
)

// ownServers holds the connections of tenants with credentials, a login or a TenantKind of their own: one for
// each tenant and server, which no other tenant uses. Their servers are started and stopped like
// the shared ones.
type ownServers struct {
	shared *upstream.Set
	none   *upstream.Set // has no server
	// credentials returns those of a tenant for a server, by the name of a variable; nil means
	// none.
	credentials func(id tenant.ID, server string) map[string]string
	logins      func(tenant.ID) *secret.Store             // of a tenant
	settings    func(tenant.ID) *config.Config            // of a tenant
	server      func(name string) (upstream.Server, bool) // as configured now
	lookup      func(name string) (value string, ok bool) // of a variable that credentials refer to
	resolve     func(context.Context, string) (string, error)
	config      upstream.Config // without Servers, Resolve and Logins
	log         *slog.Logger

	mu     sync.Mutex
	sets   map[ownKey]*ownSet
	closed bool
}

type ownKey struct {
	tenant tenant.ID
	server string
}

// ownSet holds one server.
type ownSet struct {
	set      *upstream.Set
	revision string        // of the server and the credentials; "" after release
	kind     upstream.Kind // a TenantKind; nil for others

	mu          sync.Mutex
	credentials map[string]string
}

// of returns the Set that a tenant's requests to a server go to.
func (o *ownServers) of(id tenant.ID, server string) *upstream.Set {
	if id.IsZero() || !o.hasOwn(id, server) {
		return o.shared
	}
	return o.open(id, server)
}

// hasOwn reports whether a tenant does not use the shared connection to a server.
func (o *ownServers) hasOwn(id tenant.ID, server string) bool {
	if o.credentials(id, server) != nil || upstream.HasLogin(o.logins(id), server) {
		return true
	}
	known, _ := o.server(server)
	own := o.kindFor(known, id)
	return own != nil && own != o.kindFor(known, tenant.ID{})
}

// kindFor returns the TenantKind of a server for a tenant, nil if it has none.
func (o *ownServers) kindFor(s upstream.Server, id tenant.ID) upstream.Kind {
	if k, ok := s.Kind.(TenantKind); ok {
		return k.For(o.settings(id))
	}
	return nil
}

// open returns a tenant's own Set with a server. It never returns the shared one, whose
// credentials are not the tenant's.
func (o *ownServers) open(id tenant.ID, server string) *upstream.Set {
	known, ok := o.server(server)
	given := o.credentials(id, server)
	o.mu.Lock()
	defer o.mu.Unlock()
	if !ok || o.closed { // it was removed
		return o.none
	}
	known = withCredentials(known, given, o.lookup)
	kind := o.kindFor(known, id)
	if kind != nil {
		known.Kind = kind
	}
	key := ownKey{id, server}
	own := o.sets[key]
	if own == nil {
		own = &ownSet{credentials: given, revision: known.Revision, kind: kind}
		cfg := o.config
		cfg.Servers, cfg.Resolve, cfg.Logins = []upstream.Server{known}, own.resolver(o.resolve), o.logins(id)
		var err error
		if own.set, err = upstream.New(cfg); err != nil { // the shared Set has checked the server
			o.log.Error("open the server of a tenant", "server", server, "tenant", id.String(), "error", err)
			return o.none
		}
		o.sets[key] = own
	}
	if own.revision != known.Revision || own.kind != kind {
		own.mu.Lock()
		own.credentials = given
		own.mu.Unlock()
		if err := own.set.Update([]upstream.Server{known}); err != nil {
			o.log.Error("change the server of a tenant", "server", server, "tenant", id.String(), "error", err)
		}
		own.revision, own.kind = known.Revision, kind
	}
	return own.set
}

// loginSet returns the Set that keeps the login of a tenant; that of all without one.
func (o *ownServers) loginSet(id tenant.ID, server string) *upstream.Set {
	if id.IsZero() {
		return o.shared
	}
	return o.open(id, server)
}

// withCredentials returns a server whose revision depends on the credentials and on the values of the
// variables that they refer to. A program gets
// those that its configuration does not refer to in its environment.
func withCredentials(s upstream.Server, given map[string]string, lookup func(string) (string, bool)) upstream.Server {
	h := sha256.New()
	fmt.Fprintf(h, "%q\n", s.Revision)
	names := slices.Sorted(maps.Keys(given))
	for _, name := range names {
		value, _ := lookup(strings.TrimSuffix(strings.TrimPrefix(given[name], "${"), "}"))
		fmt.Fprintf(h, "%q %q %q\n", name, given[name], value)
	}
	if p, ok := s.Kind.(upstream.Program); ok {
		s.Kind = p.WithVariables(names)
	}
	s.Revision = hex.EncodeToString(h.Sum(nil))
	return s
}

// resolver resolves references to the tenant's variables before others.
func (s *ownSet) resolver(next func(context.Context, string) (string, error)) func(context.Context, string) (string, error) {
	return func(ctx context.Context, text string) (string, error) {
		s.mu.Lock()
		var pairs []string
		for name, reference := range s.credentials {
			pairs = append(pairs, "${"+name+"}", reference)
		}
		s.mu.Unlock()
		return next(ctx, strings.NewReplacer(pairs...).Replace(text))
	}
}

// release closes the connections of tenants that have no credentials of their own any more, after
// their calls.
func (o *ownServers) release() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for key, own := range o.sets {
		if own.revision == "" || o.hasOwn(key.tenant, key.server) {
			continue
		}
		if err := own.set.Update(nil); err != nil {
			o.log.Error("close the server of a tenant", "server", key.server, "tenant", key.tenant.String(), "error", err)
		}
		own.revision = ""
	}
}

// end closes the connections of a tenant.
func (o *ownServers) end(id tenant.ID) {
	o.mu.Lock()
	var gone []*ownSet
	for key, own := range o.sets {
		if key.tenant == id {
			gone = append(gone, own)
			delete(o.sets, key)
		}
	}
	o.mu.Unlock()
	closeSets(gone)
}

func (o *ownServers) close() error {
	o.mu.Lock()
	o.closed = true
	all := slices.Collect(maps.Values(o.sets))
	o.sets = nil
	o.mu.Unlock()
	closeSets(all)
	return nil
}

func closeSets(all []*ownSet) {
	var wait sync.WaitGroup
	for _, own := range all {
		wait.Go(own.set.Close)
	}
	wait.Wait()
}

// states returns the states of the servers as a tenant uses them.
func (o *ownServers) states(id tenant.ID) []upstream.State {
	all := o.shared.States()
	for i, s := range all {
		if set := o.of(id, s.Name); set != o.shared && set != o.none {
			all[i] = set.States()[0]
		}
	}
	return all
}
