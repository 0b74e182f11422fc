package upstream

import (
	"context"
	"errors"
	"reflect"
	"time"
)

// Update replaces the configuration of the servers. A server whose configuration is equal keeps
// its connection. Requests that were sent to the others continue on their old connection, which
// is closed when the last one has ended, at the latest after Timeout; requests that wait for a
// start or for other calls go to the new server of that name. An error means that nothing has
// changed.
func (s *Set) Update(servers []Server) error {
	if err := checkServers(servers, s.resolved); err != nil {
		return err
	}
	s.mu.Lock()
	if s.isClosing() {
		s.mu.Unlock()
		return nil
	}
	var retired []*server
	s.servers, retired = s.merge(servers)
	for _, v := range retired {
		s.retired[v] = true
		v.unused = make(chan struct{})
		if v.uses == 0 {
			close(v.unused)
		}
	}
	s.mu.Unlock()
	for _, v := range retired {
		v.end()
		s.spawn(func(ctx context.Context) { s.retire(ctx, v) })
	}
	return nil
}

// merge returns the servers by name, those in use as far as their configuration is equal, and
// the others in use. The caller holds mu, unless s is new.
func (s *Set) merge(servers []Server) (all map[string]*server, retired []*server) {
	all = map[string]*server{}
	for _, c := range servers {
		if v := s.servers[c.Name]; v != nil && sameServer(v.given, c) {
			all[c.Name] = v
		} else {
			all[c.Name] = newServer(s.common, c)
		}
	}
	for name, v := range s.servers {
		if all[name] != v {
			retired = append(retired, v)
		}
	}
	return all, retired
}

// sameServer ignores what a connection finds out by itself.
func sameServer(a, b Server) bool {
	a.Legacy, b.Legacy = false, false
	return reflect.DeepEqual(a, b)
}

// use returns the server with a name, nil if there is none, and counts the use until done is
// called.
func (s *Set) use(name string) (v *server, done func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if v = s.servers[name]; v == nil {
		return nil, nil
	}
	v.uses++
	return v, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if v.uses--; v.uses == 0 && v.unused != nil {
			close(v.unused)
		}
	}
}

// errRetired is returned for a server that is no longer configured, before a request is sent.
var errRetired = errors.New("the server was removed or changed in the configuration")

// retire stops a server that is no longer configured, after its calls.
func (s *Set) retire(ctx context.Context, v *server) {
	limit := time.NewTimer(v.Timeout)
	defer limit.Stop()
	select {
	case <-v.unused:
	case <-limit.C:
		s.cfg.Log.Warn("a call of a removed or changed server did not end in time and is cancelled", "server", v.Name)
	case <-ctx.Done():
	}
	v.stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.retired, v)
}
