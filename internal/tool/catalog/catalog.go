// Package catalog stores the tools of all servers.
//
// The caller lists a server and passes the listing to Put. Listings are stored on
// disk, so that search, definitions and modules work while no server runs. Definitions
// are trusted on first use. A tool whose definition changes later is quarantined: it
// cannot be called, and the new definition is not shown to a model, until an operator
// accepts it, because a server can attack a model by changing a description. Tools of
// static catalogs are described only; their servers are not connected.
//
// A Snapshot is the immutable state of the catalog at one moment. A Catalog is safe for
// concurrent use, and several processes may open the same directory. The package opens
// no connections and calls no tools.
package catalog

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gofrs/flock"
	"golang.org/x/sync/errgroup"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
)

// Config of a Catalog.
type Config struct {
	Dir        string       // directory of the listings, created if missing; required
	Derived    string       // directory of what is computed from them, created if missing; "" stores nothing
	Servers    []Configured // in the configuration; see Update
	Static     []Static     // static catalogs; see Update
	Disabled   []string     // names of servers that the operator has disabled; see Update
	Embeddings Embedder     // nil means keyword search only; closed by the caller
	// Allow returns what selects the tools for a viewer: a tool is visible if all of them select
	// it. nil selects everything for everyone.
	Allow func(Viewer) []*Allow
	Log   *slog.Logger // nil discards
}

// Configured is a server in the configuration.
type Configured struct {
	Name     string
	Category string // "" means that it is inferred from the texts of the server
	// Identity distinguishes servers of the same name: the command or URL. Definitions
	// are trusted for one identity.
	Identity string
	Trusted  bool // its annotations are trusted
	// Local is a server in this process, whose changed definitions are trusted too.
	Local bool
	// Review quarantines new tools, and hides other texts of the server, until an operator
	// accepts them. It should be part of Identity, so that no process without it trusts them.
	Review bool
}

// Catalog stores the listings of servers.
type Catalog struct {
	cfg  Config // Servers and Static are guarded by mu
	lock *flock.Flock

	outline atomic.Pointer[Snapshot] // the servers before the listings were read, without tools; nil afterwards

	changing sync.Mutex   // serialises changes of the directory; locked before allowing and mu
	allowing sync.RWMutex // held while servers and the data of Allow change together; locked before mu

	mu       sync.Mutex
	listings map[string]*listing // by server; nil for one that was never listed
	seen     time.Time           // modification time of the directory when it was read
	checked  time.Time
	unread   bool               // listings was not read yet
	stored   func() storedIndex // read once, for the first snapshot; nil afterwards
	now      *Snapshot          // built on demand if nil, since many servers may be listed before
}

// Open reads the stored listings, unless their servers are known from Config.Derived: then the first Now
// does it. It logs a file that it cannot read, and treats its server as never listed.
func Open(cfg Config) (*Catalog, error) {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, fault.Wrap(fault.Unavailable, err, "create the directory of tool definitions").
			WithHint("the data directory must belong to the user that runs Sandpiper and be writable")
	}
	c := &Catalog{cfg: cfg, lock: flock.New(filepath.Join(cfg.Dir, "lock"), flock.SetPermissions(0o600)), listings: map[string]*listing{}}
	c.stored = sync.OnceValue(func() storedIndex { return readIndex(cfg.Derived) })
	c.mu.Lock()
	defer c.mu.Unlock()
	if outline := readOutline(cfg); outline != nil {
		c.outline.Store(outline)
		c.unread = true
		return c, nil
	}
	c.read()
	return c, nil
}

// readOutline returns a snapshot without tools, nil if the listing of some server must be read.
func readOutline(cfg Config) *Snapshot {
	known := readSummaries(cfg.Derived)
	if known == nil {
		return nil
	}
	listings := map[string]*listing{}
	for _, s := range cfg.Servers {
		path := s.path(cfg.Dir)
		info, err := os.Stat(path)
		m := known[filepath.Base(path)]
		switch {
		case os.IsNotExist(err):
			continue
		case err != nil, m == nil, info.Size() != m.Size, info.ModTime().UnixNano() != m.Changed:
			return nil
		}
		l := &listing{Legacy: m.Legacy, Listed: m.Listed}
		m.fill(l)
		listings[s.Name] = l
	}
	cfg.Embeddings, cfg.Derived = nil, ""
	return newSnapshot(cfg, listings)
}

// checkInterval is the interval of checks whether another process changed the directory.
const checkInterval = time.Second

// Now returns the current snapshot.
func (c *Catalog) Now() *Snapshot {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.unread {
		c.read()
	}
	if time.Since(c.checked) > checkInterval {
		c.checked = time.Now()
		if c.modified().After(c.seen) {
			c.read()
		}
	}
	if c.now == nil {
		c.now = newSnapshot(c.cfg, c.listings)
		c.now.stored, c.stored = c.stored, nil
		c.outline.Store(nil)
	}
	return c.now
}

// Newest is Now, with what other processes have stored until it is called.
func Newest(c *Catalog) *Snapshot {
	c.mu.Lock()
	c.checked = time.Time{}
	c.mu.Unlock()
	return c.Now()
}

func (c *Catalog) modified() time.Time {
	fi, err := os.Stat(c.cfg.Dir)
	if err != nil {
		return time.Time{}
	}
	return fi.ModTime()
}

// read loads the listings from disk. The caller holds mu.
func (c *Catalog) read() {
	c.seen, c.checked, c.unread = c.modified(), time.Now(), false
	known := readSummaries(c.cfg.Derived)
	all := make([]*listing, len(c.cfg.Servers))
	var g errgroup.Group
	g.SetLimit(max(1, runtime.GOMAXPROCS(0)-1)) // requests, and the index beside it, need a processor too
	for i, s := range c.cfg.Servers {
		g.Go(func() error {
			path := c.path(s)
			m := known[filepath.Base(path)]
			l, err := load(path, m.is)
			if err != nil {
				c.cfg.Log.Warn("cannot read the stored definitions of a server; it will be listed again", "server", s.Name, "error", err)
			}
			if all[i] = l; l == nil {
				return nil
			}
			if m.is(l.file.sum) {
				m.fill(l)
			}
			if s.Category == "" {
				l.inferCategory(s.Name)
			}
			return nil
		})
	}
	g.Wait()
	for i, s := range c.cfg.Servers {
		c.listings[s.Name] = all[i]
	}
	c.now = nil
}

// Change is the effect of Put on a listing.
type Change struct {
	Added, Removed, Quarantined []string // tools, sorted
	Modules                     bool     // generated modules have changed
}

// Update replaces the servers, the static catalogs and the disabled servers, and calls swap, which replaces what
// Config.Allow reads: no viewer sees the servers of one configuration with the selection of another.
// Stored listings of new servers are read.
func (c *Catalog) Update(servers []Configured, static []Static, disabled []string, swap func()) {
	c.changing.Lock()
	defer c.changing.Unlock()
	c.allowing.Lock()
	defer c.allowing.Unlock()
	swap()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.outline.Store(nil)
	c.cfg.Servers, c.cfg.Static, c.cfg.Disabled, c.listings = servers, static, disabled, map[string]*listing{}
	c.read()
}

// Put stores the listing of a server. It trusts new tools, unless they must be reviewed, and
// quarantines changed ones.
func (c *Catalog) Put(ctx context.Context, server string, received Listing) (Change, error) {
	var change Change
	err := c.update(ctx, server, func(s Configured, l *listing) error {
		if received.Identity != "" && s.Identity != received.Identity {
			return fault.New(fault.Unavailable, "server %q was changed in the configuration while its tools were listed", server)
		}
		change = l.apply(received, s.Review)
		if s.Local && len(change.Quarantined) > 0 {
			change.Quarantined = nil
			_, err := l.accept(server, nil)
			return err
		}
		return nil
	})
	return change, err
}

// Accept trusts the new definitions of quarantined tools of a server; of all of them if
// tools is empty. It returns the accepted tools.
func (c *Catalog) Accept(ctx context.Context, server string, tools ...string) (accepted []string, err error) {
	return c.AcceptShown(ctx, server, "", tools...)
}

// AcceptShown is Accept if the definitions are those that Snapshot.Shown returned shown for; otherwise
// it accepts nothing. An empty shown accepts any.
func (c *Catalog) AcceptShown(ctx context.Context, server, shown string, tools ...string) (accepted []string, err error) {
	err = c.update(ctx, server, func(_ Configured, l *listing) (wrong error) {
		if shown != "" && shown != l.shown(tools) {
			return fault.New(fault.Denied, "the quarantined definitions of %q are not those with hash %.16s; nothing was accepted", server,
				shown).
				WithHint("they have changed, or others were shown: look at them again with `sandpiper tools accept %s`",
					strings.Join(append([]string{server}, tools...), " "))
		}
		accepted, wrong = l.accept(server, tools)
		return wrong
	})
	return accepted, err
}

// update changes the listing of a server on disk and in memory, unless f returns an error.
func (c *Catalog) update(ctx context.Context, server string, f func(Configured, *listing) error) error {
	c.changing.Lock()
	defer c.changing.Unlock()
	c.mu.Lock()
	servers := c.cfg.Servers // replaced with changing locked only
	c.mu.Unlock()
	i := slices.IndexFunc(servers, func(s Configured) bool { return s.Name == server })
	if i < 0 {
		return fault.New(fault.NotFound, "there is no server %q in the configuration", server).
			WithHint("the servers are: %s", serverNames(servers))
	}
	if ok, err := c.lock.TryLockContext(ctx, 5*time.Millisecond); !ok {
		return fmt.Errorf("lock the catalog directory: %w", err)
	}
	defer c.lock.Unlock()
	path := c.path(servers[i])
	l, err := load(path, nothingKnown) // another process may have changed it
	if err != nil || l == nil {
		l = &listing{}
	}
	if err := f(servers[i], l); err != nil {
		return err
	}
	if err := l.save(path); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.listings[server] = l
	c.outline.Store(nil)
	c.now = nil
	return nil
}

func serverNames(servers []Configured) string {
	var names []string
	for _, s := range servers {
		names = append(names, s.Name)
	}
	return abbreviate(names, 20)
}

// abbreviate joins the first names of a list and counts the others.
func abbreviate(names []string, most int) string {
	switch {
	case len(names) == 0:
		return "none"
	case len(names) > most:
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	return strings.Join(names, ", ")
}

// Listing is the description that a server returns of itself.
type Listing struct {
	Title        string
	Version      string
	Instructions string
	Resources    bool // it has resources
	Prompts      bool
	Legacy       bool   // it answers initialize and not server/discover
	Identity     string // of the Configured server that was listed, which must still be configured; "" means any
	Tools        []tool.Definition
	Notes        []string // what was left out of Tools or changed, and why
}
