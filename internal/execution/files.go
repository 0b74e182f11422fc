package execution

import (
	"bufio"
	"context"
	"io"
	"os"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
)

// keepWait bounds how long keeping one file may take.
const keepWait = 30 * time.Second

// store is a tenant's workspace as far as spilling needs it. What has to be kept
// is kept even if whoever asked has gone.
type store struct {
	ctx     context.Context // without its end
	home    *home.Home
	exit    *redact.Exit
	scratch string
	large   *sync.Mutex
}

// Put implements files.
func (s store) Put(name string, data []byte) error {
	ctx, cancel := context.WithTimeout(s.ctx, keepWait)
	defer cancel()
	if s.exit.Strict() && utf8.Valid(data) {
		text, err := s.exit.PromoteTokens(ctx, string(data))
		if err != nil {
			return err
		}
		data = []byte(text)
	}
	return s.home.Workspace.Write(ctx, name, data)
}

// Create implements files. The workspace takes a file as a whole, so it grows
// in a scratch file of the daemon's, out of reach of the code that prints it.
func (s store) Create(name string) (file, error) {
	f, err := os.CreateTemp(s.scratch, "sandpiper-output-")
	if err != nil {
		return nil, fault.Wrap(fault.Unavailable, err, "the daemon has no place for large output")
	}
	return &growing{Writer: bufio.NewWriterSize(f, 64<<10), f: f, store: s, name: name}, nil
}

// growing is a file on its way into a workspace.
type growing struct {
	*bufio.Writer
	f     *os.File
	store store
	name  string
}

// Commit implements file. One such file is in memory at a time, however many
// executions end together.
func (g *growing) Commit() error {
	defer g.Abort()
	if err := g.Flush(); err != nil {
		return fault.Wrap(fault.Unavailable, err, "the daemon has no room for large output")
	}
	g.store.large.Lock()
	defer g.store.large.Unlock()
	if _, err := g.f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	data, err := io.ReadAll(g.f)
	if err != nil {
		return err
	}
	return g.store.Put(g.name, data)
}

// Abort implements file.
func (g *growing) Abort() {
	_ = g.f.Close() // nothing more is expected of it
	_ = os.Remove(g.f.Name())
}
