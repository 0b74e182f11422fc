package reply

import (
	"bufio"
	"context"
	"io"
	"os"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home/workspace"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
)

// writeTimeout limits writing one file.
const writeTimeout = 30 * time.Second

// Store writes files in a tenant's workspace.
type Store struct {
	Workspace *workspace.Files
	Gate      *redact.Gate
	Scratch   string      // directory for large output before it is stored
	Large     *sync.Mutex // held while a large file is in memory
}

// put writes a file, atomically. It is durable when put returns. The write completes
// even if ctx has ended.
func (s Store) put(ctx context.Context, name string, data []byte) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
	defer cancel()
	if s.Gate.Strict() && utf8.Valid(data) {
		text, err := s.Gate.Tokens().Promote(ctx, string(data))
		if err != nil {
			return err
		}
		data = []byte(text)
	}
	return s.Workspace.Write(ctx, name, data)
}

// create returns a new file. The workspace accepts only complete files, so the file
// grows in the daemon's scratch directory, which the code cannot reach.
func (s Store) create(name string) (file, error) {
	tmp, err := os.CreateTemp(s.Scratch, "sandpiper-output-")
	if err != nil {
		return nil, fault.Wrap(fault.Unavailable, err, "large output cannot be written to the scratch directory")
	}
	return &pendingFile{Writer: bufio.NewWriterSize(tmp, 64<<10), f: tmp, store: s, name: name}, nil
}

// pendingFile is a file that is not yet in the workspace.
type pendingFile struct {
	*bufio.Writer
	f     *os.File
	store Store
	name  string
}

// Commit implements file. The content is copied; only one file that must be redacted is in memory
// at a time, regardless of how many executions end together.
func (g *pendingFile) Commit(ctx context.Context) error {
	defer g.Abort()
	if err := g.Flush(); err != nil {
		return fault.Wrap(fault.Unavailable, err, "large output cannot be written to the scratch directory")
	}
	size, err := g.f.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	if _, err := g.f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	if !g.store.Gate.Strict() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
		defer cancel()
		return g.store.Workspace.WriteFrom(ctx, g.name, g.f, size)
	}
	g.store.Large.Lock()
	defer g.store.Large.Unlock()
	data, err := io.ReadAll(g.f)
	if err != nil {
		return err
	}
	return g.store.put(ctx, g.name, data)
}

// Abort implements file.
func (g *pendingFile) Abort() {
	_ = g.f.Close() // the file is discarded
	_ = os.Remove(g.f.Name())
}
