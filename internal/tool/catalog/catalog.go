// Package catalog knows the tools of all servers, whether they run or not.
//
// A server is listed by whoever is connected to it and put here; what it said is
// kept on disk, so that search, definitions and modules work with nothing
// running. Its definitions are trusted on first use. One that changes later is
// held: the tool cannot be called, and nobody is shown the new words, until an
// operator accepts them, because a changed description is how a server attacks a
// model. Tools of static catalogs are known by their words alone; their server
// is not connected.
//
// A Snapshot is all of it at one moment, and does not change. A Catalog is safe
// for concurrent use, and several processes may have one for the same directory.
// The package connects to nothing and calls nothing.
package catalog

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/gofrs/flock"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog/embedding"
)

// Config of a Catalog.
type Config struct {
	Dir        string           // where listings are kept; made if there is none. Required
	Servers    []Configured     // in the operator's configuration
	Static     []Static         // catalogs of tools that are only described
	Embeddings *embedding.Index // nil means that tools are found by words alone; closed by who made it
	Log        *slog.Logger     // nil discards
}

// Configured is a server that the operator wants.
type Configured struct {
	Name     string
	Category string // "" means that it is inferred from the server's own words
	// Identity tells this server from another of the same name: what is run or
	// called. Trust is in an identity.
	Identity string
	Trusted  bool // what it says of its tools' effects is believed
}

// Catalog keeps what servers said.
type Catalog struct {
	cfg  Config
	lock *flock.Flock

	changing sync.Mutex // held by who changes the directory, and taken before mu

	mu       sync.Mutex
	listings map[string]*listing // by server; nil for one that never was listed
	seen     time.Time           // the directory's time when it was read
	looked   time.Time
	now      *Snapshot // nil until it is asked for: many servers may be listed before that
}

// Open reads what was kept. A file that cannot be read is as if the server had
// never been listed, and is logged.
func Open(cfg Config) (*Catalog, error) {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, fault.Wrap(fault.Unavailable, err, "the directory for tool definitions cannot be made").
			WithHint("the data directory must belong to the user that runs Sandpiper and be writable")
	}
	c := &Catalog{cfg: cfg, lock: flock.New(filepath.Join(cfg.Dir, "lock"), flock.SetPermissions(0o600)), listings: map[string]*listing{}}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.read()
	return c, nil
}

// lookEvery is how often it is looked whether another process changed the
// directory.
const lookEvery = time.Second

// Now returns the catalog as it is.
func (c *Catalog) Now() *Snapshot {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.looked) > lookEvery {
		c.looked = time.Now()
		if c.modified().After(c.seen) {
			c.read()
		}
	}
	if c.now == nil {
		c.now = newSnapshot(c.cfg, c.listings)
	}
	return c.now
}

func (c *Catalog) modified() time.Time {
	fi, err := os.Stat(c.cfg.Dir)
	if err != nil {
		return time.Time{}
	}
	return fi.ModTime()
}

// read takes over what is on disk. The caller holds the lock.
func (c *Catalog) read() {
	c.seen, c.looked = c.modified(), time.Now()
	for _, s := range c.cfg.Servers {
		l, err := load(c.path(s))
		if err != nil {
			c.cfg.Log.Warn("a server's kept definitions cannot be read; it will be asked again", "server", s.Name, "error", err)
		}
		c.listings[s.Name] = l
	}
	c.publish()
}

// publish has the next who asks see what there is now. The caller holds the lock.
func (c *Catalog) publish() { c.now = nil }

// Change is what a Put made of a listing.
type Change struct {
	Added, Removed, Quarantined []string // tools, sorted
	Modules                     bool     // what generated modules show is different
}

// Put takes over what a server listed: a tool that is new is trusted, one that
// changed is held.
func (c *Catalog) Put(ctx context.Context, server string, said Listing) (Change, error) {
	var change Change
	err := c.update(ctx, server, func(l *listing) { change = l.take(said) })
	return change, err
}

// Accept trusts the new definitions of a server's held tools; of all of them if
// none is named. It returns those that it accepted.
func (c *Catalog) Accept(ctx context.Context, server string, tools ...string) (accepted []string, err error) {
	var wrong error
	err = c.update(ctx, server, func(l *listing) { accepted, wrong = l.accept(server, tools) })
	if wrong != nil {
		err = wrong
	}
	return accepted, err
}

// SetText notes that a tool answers with text, for whoever describes it.
func (c *Catalog) SetText(ctx context.Context, ref tool.Ref) error {
	return c.update(ctx, ref.Server, func(l *listing) {
		for i, k := range l.Tools {
			if k.Trusted.Tool == ref.Tool {
				l.Tools[i].Text = true
			}
		}
	})
}

// update changes the listing of a server, on disk and here.
func (c *Catalog) update(ctx context.Context, server string, f func(*listing)) error {
	i := slices.IndexFunc(c.cfg.Servers, func(s Configured) bool { return s.Name == server })
	if i < 0 {
		return fault.New(fault.NotFound, "there is no server %q in the configuration", server).WithHint("the servers are: %s", c.names())
	}
	c.changing.Lock()
	defer c.changing.Unlock()
	if ok, err := c.lock.TryLockContext(ctx, 5*time.Millisecond); !ok {
		return fmt.Errorf("lock the catalog: %w", err)
	}
	defer c.lock.Unlock()
	path := c.path(c.cfg.Servers[i])
	l, err := load(path) // another process may have changed it
	if err != nil || l == nil {
		l = &listing{}
	}
	f(l)
	if err := l.save(path); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.listings[server] = l
	c.publish()
	return nil
}

func (c *Catalog) names() string {
	var names []string
	for _, s := range c.cfg.Servers {
		names = append(names, s.Name)
	}
	return some(names, 20)
}

// some lists the first of many names.
func some(names []string, most int) string {
	if len(names) == 0 {
		return "none"
	}
	text := ""
	for i, n := range names {
		if i == most {
			return fmt.Sprintf("%s and %d more", text, len(names)-most)
		}
		if i > 0 {
			text += ", "
		}
		text += n
	}
	return text
}

// Listing is what a server says of itself.
type Listing struct {
	Title        string
	Version      string
	Instructions string
	Resources    bool // it has resources
	Prompts      bool
	Legacy       bool // it answers initialize and not server/discover
	Tools        []tool.Definition
}
