package journal

import (
	"context"
	"sync/atomic"

	"github.com/sandpiper-mcp/sandpiper/internal/store"
	"github.com/sandpiper-mcp/sandpiper/internal/store/appendlog"
)

// logKind is the kind of the logs of calls.
const logKind = "calls"

// callLog is the log of calls of a Log: each frame has lines, which are stored in the database later.
type callLog struct {
	*appendlog.Queue
	begun atomic.Int64 // calls
}

func newCallLog(cfg *Config) *callLog {
	return &callLog{Queue: appendlog.NewQueue(appendlog.QueueConfig{DB: cfg.DB, Kind: logKind, Table: "journal_logs", Log: cfg.Log,
		Store: func(ctx context.Context, tx *store.Tx, frames []appendlog.Frame) error {
			var all folding
			for _, f := range frames {
				if err := all.add(f); err != nil {
					cfg.Log.Error("read the log of calls", "error", err)
				}
			}
			return all.apply(ctx, tx, cfg)
		}})}
}

// add appends lines. They are on disk when add returns, or within 50 milliseconds if they are deferred.
func (c *callLog) add(ctx context.Context, lines []line, deferred bool) error {
	file, err := c.append(ctx, lines)
	if err != nil {
		return err
	}
	return c.Sync(ctx, file, deferred)
}

// append appends lines, which are stored together or not at all.
func (c *callLog) append(ctx context.Context, lines []line) (*appendlog.Log, error) {
	var b []byte
	for _, l := range lines {
		b = appendLine(b, l)
	}
	return c.Append(ctx, b)
}

// CopyLogs copies the logs of calls next to the database at a path to another path, before the database is
// copied: Close of a Log of the copy stores what it does not have.
func CopyLogs(from, to string) error { return appendlog.CopyLogs(from, to, logKind) }
