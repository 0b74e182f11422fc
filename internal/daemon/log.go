package daemon

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"

	"github.com/sandpiper-mcp/sandpiper/internal/config"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
)

// logger is the log of the daemon. It redacts all text.
type logger struct {
	*slog.Logger
	file io.Closer                   // nil if the log is not written to a file
	with fault.Commands              // in messages
	gate atomic.Pointer[redact.Gate] // for text that belongs to no tenant; nil until the rules are known
}

// openLog opens the log: a file, if cfg names one, handler, or stderr. It never writes to stdout,
// which is reserved for the protocol.
func openLog(cfg config.Log, stderr io.Writer, handler slog.Handler) (*logger, error) {
	l, w := &logger{}, stderr
	if cfg.File != "" {
		f, err := openLogFile(cfg)
		if err != nil {
			return nil, fmt.Errorf("open the log: %w", err)
		}
		w, l.file = f, f
	}
	if w == nil {
		w = io.Discard
	}
	if handler == nil || cfg.File != "" {
		handler = slog.NewTextHandler(w, &slog.HandlerOptions{Level: cfg.Level})
	}
	l.Logger = slog.New(redacting{handler, l.redact})
	return l, nil
}

func (l *logger) close() error {
	if l.file == nil {
		return nil
	}
	return l.file.Close()
}

// redact redacts text that belongs to no tenant, such as a line of the log. The values
// cannot be restored.
func (l *logger) redact(text string) string {
	gate := l.gate.Load()
	if gate == nil { // before servers and tenants are opened
		return l.with.Complete(text)
	}
	clean, err := gate.Tokenize(context.Background(), "", text)
	if err != nil {
		return "[redacted]"
	}
	return l.with.Complete(clean)
}

// openLogFile opens the log file and creates its directory. A project's log file stays
// in the project's directory, even through symbolic links.
func openLogFile(log config.Log) (*os.File, error) {
	const flags, mode = os.O_CREATE | os.O_APPEND | os.O_WRONLY, 0o600
	if log.Root == "" {
		if err := os.MkdirAll(filepath.Dir(log.File), 0o700); err != nil {
			return nil, err
		}
		return os.OpenFile(log.File, flags, mode)
	}
	root, err := os.OpenRoot(log.Root)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	name, err := filepath.Rel(log.Root, log.File)
	if err != nil {
		return nil, err
	}
	if dir := filepath.Dir(name); dir != "." {
		if err := root.MkdirAll(dir, 0o700); err != nil {
			return nil, err
		}
	}
	return root.OpenFile(name, flags, mode)
}
