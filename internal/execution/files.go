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

// writeTimeout limits writing one file.
const writeTimeout = 30 * time.Second

// workspaceFiles implements files with a tenant's workspace. Writes complete even if
// the caller's context has ended.
type workspaceFiles struct {
	ctx     context.Context // without cancellation
	home    *home.Home
	exit    *redact.Exit
	scratch string
	largeMu *sync.Mutex
}

// Put implements files.
func (s workspaceFiles) Put(name string, data []byte) error {
	ctx, cancel := context.WithTimeout(s.ctx, writeTimeout)
	defer cancel()
	if s.exit.Strict() && utf8.Valid(data) {
		text, err := s.exit.Tokens().Promote(ctx, string(data))
		if err != nil {
			return err
		}
		data = []byte(text)
	}
	return s.home.Workspace.Write(ctx, name, data)
}

// Create implements files. The workspace accepts only complete files, so the file
// grows in the daemon's scratch directory, which the code cannot reach.
func (s workspaceFiles) Create(name string) (file, error) {
	f, err := os.CreateTemp(s.scratch, "sandpiper-output-")
	if err != nil {
		return nil, fault.Wrap(fault.Unavailable, err, "large output cannot be written to the scratch directory")
	}
	return &pendingFile{Writer: bufio.NewWriterSize(f, 64<<10), f: f, store: s, name: name}, nil
}

// pendingFile is a file that is not yet in the workspace.
type pendingFile struct {
	*bufio.Writer
	f     *os.File
	store workspaceFiles
	name  string
}

// Commit implements file. Only one such file is in memory at a time, regardless of how
// many executions end together.
func (g *pendingFile) Commit() error {
	defer g.Abort()
	if err := g.Flush(); err != nil {
		return fault.Wrap(fault.Unavailable, err, "large output cannot be written to the scratch directory")
	}
	g.store.largeMu.Lock()
	defer g.store.largeMu.Unlock()
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
func (g *pendingFile) Abort() {
	_ = g.f.Close() // the file is discarded
	_ = os.Remove(g.f.Name())
}
