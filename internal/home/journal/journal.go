// Package journal records the calls of a tenant that may have side effects, and the
// requests of each execution, so that an execution can be replayed without repeating a call.
//
// A call with possible side effects is recorded before it is made and again when it is
// answered. The begin is on disk before the call is made. The end is written before the
// caller continues and synced within 50 milliseconds: kill -9 loses no end, and a loss of
// power may. A call that began and has no end has an unknown outcome. An Entry contains the
// tool, the times, the outcome and a hash of the arguments, never a value. Only the latest
// entries are kept.
//
// Begins and ends are first lines of a log of calls, a file next to the database, because a commit of the
// database takes several times as long. They are stored in the database within a second, many in one
// commit, and before anything is read.
//
// A Record is the record of one execution: its request, the host calls of its code and their
// answers, all encrypted. It is in memory until the first call with possible side effects
// begins, and is written to disk with that call. A replay returns the recorded answers. The
// Record of an execution that completed is deleted.
//
// A Log and a Record are safe for concurrent use. Several processes may have a Log of the
// same database; one live process at a time owns a Record. Calls that begin at the same
// time share one sync. The package makes no calls and runs no code.
package journal

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"sync"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/store"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
)

// Config of a Log.
type Config struct {
	DB       *store.DB // with Tables in it. Required
	MaxCalls int       // entries kept; 0 means 10,000

	Tenant  tenant.ID // owner of the records. Required with Process
	Process *Process  // owner of new records; nil means that executions are not recorded
	// Due is called when the time has changed at which the next background execution is to be
	// claimed, zero for none; nil means not.
	Due func(time.Time) error

	Log            *slog.Logger  // nil means discard
	ReorderTimeout time.Duration // how long Next waits for calls in another order; 0 means 5 s
}

// Outcome is how a call ended.
type Outcome string

const (
	Answered Outcome = "answered"
	Failed   Outcome = "failed"   // the tool answered with an error
	NotMade  Outcome = "not_made" // the call was not sent
	Unknown  Outcome = "unknown"  // no answer arrived: the call may have taken effect
)

// Entry is one call of the record.
type Entry struct {
	ID        int64
	Execution string
	Ref       tool.Ref
	Arguments string // hash
	Began     time.Time
	Ended     time.Time // zero while the outcome is unknown
	Outcome   Outcome   // Unknown until the call ends
}

// Log is the record of one tenant.
type Log struct {
	cfg Config

	calls *callLog

	mu      sync.Mutex
	running map[string]bool // executions of this process

	late    map[string]End // ends that could not be stored, by execution
	retry   *time.Timer    // next attempt to write late; nil if none is scheduled
	retries sync.WaitGroup
	closed  bool
}

// New returns the Log of a tenant.
func New(cfg Config) *Log {
	if cfg.MaxCalls == 0 {
		cfg.MaxCalls = 10_000
	}
	cfg.ReorderTimeout = cmp.Or(cfg.ReorderTimeout, 5*time.Second)
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	l := &Log{cfg: cfg, running: map[string]bool{}, late: map[string]End{}}
	l.calls = newCallLog(&l.cfg)
	return l
}

// Begin records that a call is about to be made, and returns a number for Done. The entry is on disk when
// Begin returns.
func (l *Log) Begin(ctx context.Context, c tool.Call) (number int64, err error) {
	number = l.calls.begun.Add(1)
	return number, l.calls.add(ctx, []line{callBegins(number, c)}, false)
}

// callBegins returns the line of a call that begins.
func callBegins(number int64, c tool.Call) line {
	sum := sha256.Sum256(c.Args)
	return line{
		kind:      callBegan,
		number:    number,
		execution: c.Execution,
		server:    c.Server,
		tool:      c.Tool,
		at:        time.Now().UnixMilli(),
		arguments: []byte(hex.EncodeToString(sum[:])),
	}
}

// Done records the outcome of a call that this Log has begun. It survives the end of this process when Done
// returns, and a loss of power within 50 milliseconds.
func (l *Log) Done(ctx context.Context, number int64, o Outcome) error {
	return l.calls.add(ctx, []line{callEnds(number, o)}, true)
}

// callEnds returns the line of a call that has ended.
func callEnds(number int64, o Outcome) line {
	return line{kind: callEnded, number: number, at: time.Now().UnixMilli(), state: string(o)}
}

// List returns the latest calls, newest first.
func (l *Log) List(ctx context.Context, most int) (entries []Entry, err error) {
	err = l.calls.View(ctx, func(tx *store.Tx) error {
		rows, err := tx.QueryContext(ctx, `SELECT id, execution, server, tool, arguments, began, coalesce(ended, 0), coalesce(outcome, 'unknown')
			FROM journal_calls ORDER BY id DESC LIMIT ?`, most)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var e Entry
			var began, ended int64
			if err := rows.Scan(&e.ID, &e.Execution, &e.Ref.Server, &e.Ref.Tool, &e.Arguments, &began, &ended, &e.Outcome); err != nil {
				return err
			}
			e.Began = time.UnixMilli(began).UTC()
			if ended != 0 {
				e.Ended = time.UnixMilli(ended).UTC()
			}
			entries = append(entries, e)
		}
		return rows.Err()
	})
	return entries, err
}
