// Package usage counts the tokens of a tenant's tool calls, spent and saved.
//
// Saved are the arguments and results of tools that code called: a client that calls the
// tools directly would have read and written them. Spent are the arguments and results of our
// own tools, which the model did read and write. Neither includes the tool definitions that are
// listed at the start of a conversation; the conversations are counted instead.
//
// Counting runs in the background and delays no answer. What could not be written, because the
// database was busy, is written later; what was not written is lost when the process ends. For a text above 64 KiB a
// part is counted and the total is marked as
// estimated. A Counter is safe for concurrent use, and several processes may have one for the
// same database. No text is stored.
package usage

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/store"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/tokens"
)

// Tables creates the table of usage. The row with session ” is the total.
const Tables = `
CREATE TABLE usage (
	session       TEXT    NOT NULL PRIMARY KEY,
	conversations INTEGER NOT NULL,
	calls         INTEGER NOT NULL,
	saved         INTEGER NOT NULL,
	spent         INTEGER NOT NULL,
	estimated     INTEGER NOT NULL, -- 1 if a part of it is
	changed       INTEGER NOT NULL  -- Unix milliseconds
) STRICT, WITHOUT ROWID;
`

// Totals are token counts (o200k).
type Totals struct {
	Conversations int64 // conversations with at least one call of our tools
	Calls         int64 // tool calls by code
	Saved         int64
	Spent         int64
	Estimated     bool
}

func (r *Totals) add(o Totals) {
	r.Conversations += o.Conversations
	r.Calls += o.Calls
	r.Saved += o.Saved
	r.Spent += o.Spent
	r.Estimated = r.Estimated || o.Estimated
}

// Counter counts for one tenant.
type Counter struct {
	db      *store.DB
	counted func(inside bool, tokens int64)
	log     *slog.Logger

	mu        sync.Mutex
	waiting   []amount
	bytes     int // size of waiting
	started   bool
	unwritten map[string]*Totals // by session, not written yet
	timer     *time.Timer
	closed    bool
	runs      sync.WaitGroup
	counting  sync.Mutex // held while texts are counted and totals written
}

// amount is a text to be counted, or a part of it.
type amount struct {
	session string
	inside  bool
	text    string
	scale   float64 // length of the text divided by the length of the part
}

// Limits. While more than maxWaiting waits, new texts are estimated from their length.
const (
	maxWaiting    = 8 << 20  // bytes
	maxExact      = 64 << 10 // bytes of a text that is counted completely
	sampleBytes   = 16 << 10 // counted of a longer text
	bytesPerToken = 4        // estimate
	writeAfter    = 5 * time.Second
	maxRows       = 1000 // sessions with a row of their own
)

// New returns a Counter for the tenant's database, which contains Tables. It calls counted with
// each number of tokens that it counts; nil means no call. A nil log discards.
func New(db *store.DB, counted func(inside bool, tokens int64), log *slog.Logger) *Counter {
	if counted == nil {
		counted = func(bool, int64) {}
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Counter{db: db, counted: counted, log: log, unwritten: map[string]*Totals{}}
}

// AddToolCall counts a tool call by code; session may be "".
func (m *Counter) AddToolCall(session string, texts ...string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.each(session, func(r *Totals) { r.Calls++ })
	for _, t := range texts {
		m.enqueue(session, true, t)
	}
}

// AddModelText counts texts that a model wrote or read; session may be "".
func (m *Counter) AddModelText(session string, texts ...string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.started {
		m.started = true
		m.totals("").Conversations++
	}
	if session != "" {
		m.totals(session).Conversations = 1
	}
	for _, t := range texts {
		m.enqueue(session, false, t)
	}
}

// enqueue adds a text to those to be counted. The caller holds the lock.
func (m *Counter) enqueue(session string, inside bool, text string) {
	if m.closed {
		return
	}
	a := amount{session, inside, text, 1}
	switch {
	case m.bytes > maxWaiting:
		m.count(a, int64(len(text)/bytesPerToken), true)
	case len(text) > maxExact:
		a.text, a.scale = strings.Clone(text[:sampleBytes]), float64(len(text))/sampleBytes
		fallthrough
	default:
		m.waiting = append(m.waiting, a)
		m.bytes += len(a.text)
	}
	if m.timer == nil {
		m.runs.Add(1)
		m.timer = time.AfterFunc(writeAfter, m.run)
	}
}

// count adds tokens to the totals. The caller holds the lock.
func (m *Counter) count(a amount, n int64, estimated bool) {
	m.counted(a.inside, n)
	m.each(a.session, func(r *Totals) {
		if a.inside {
			r.Saved += n
		} else {
			r.Spent += n
		}
		r.Estimated = r.Estimated || estimated
	})
}

// each changes the overall totals and those of the session.
func (m *Counter) each(session string, change func(*Totals)) {
	change(m.totals(""))
	if session != "" {
		change(m.totals(session))
	}
}

func (m *Counter) totals(session string) *Totals {
	r := m.unwritten[session]
	if r == nil {
		r = &Totals{}
		m.unwritten[session] = r
	}
	return r
}

// run is called by the timer.
func (m *Counter) run() {
	defer m.runs.Done()
	m.mu.Lock()
	m.timer = nil
	m.mu.Unlock()
	m.flush()
}

// flush counts the waiting texts and writes the totals.
func (m *Counter) flush() {
	m.counting.Lock()
	defer m.counting.Unlock()
	m.mu.Lock()
	waiting := m.waiting
	m.waiting, m.bytes = nil, 0
	m.mu.Unlock()
	for _, a := range waiting {
		n := tokens.Count(a.text)
		m.mu.Lock()
		m.count(a, int64(float64(n)*a.scale), a.scale > 1)
		m.mu.Unlock()
	}
	m.mu.Lock()
	unwritten := m.unwritten
	m.unwritten = map[string]*Totals{}
	m.mu.Unlock()
	if len(unwritten) == 0 {
		return
	}
	if err := m.write(unwritten); err != nil {
		m.log.Warn("token usage was not written yet", "error", err)
		m.putBack(unwritten)
	}
}

// putBack adds totals that were not written to those to be written.
func (m *Counter) putBack(unwritten map[string]*Totals) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for session, r := range unwritten {
		m.totals(session).add(*r)
	}
	if m.timer == nil && !m.closed {
		m.runs.Add(1)
		m.timer = time.AfterFunc(writeAfter, m.run)
	}
}

func (m *Counter) write(unwritten map[string]*Totals) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return m.db.UpdateDeferredSync(ctx, func(tx *store.Tx) error {
		for session, r := range unwritten {
			now := *r
			before, err := read(ctx, tx, session)
			if err != nil {
				return err
			}
			now.add(before)
			if session != "" {
				now.Conversations = 1
			}
			_, err = tx.ExecContext(ctx, `INSERT OR REPLACE INTO usage (session, conversations, calls, saved, spent, estimated, changed)
				VALUES (?, ?, ?, ?, ?, ?, ?)`, session, now.Conversations, now.Calls, now.Saved, now.Spent, now.Estimated, time.Now().UnixMilli())
			if err != nil {
				return err
			}
		}
		_, err := tx.ExecContext(ctx, `DELETE FROM usage WHERE session IN
			(SELECT session FROM usage WHERE session <> '' ORDER BY changed DESC LIMIT -1 OFFSET ?)`, maxRows)
		return err
	})
}

func read(ctx context.Context, tx *store.Tx, session string) (r Totals, err error) {
	err = tx.QueryRowContext(ctx, "SELECT conversations, calls, saved, spent, estimated FROM usage WHERE session = ?", session).
		Scan(&r.Conversations, &r.Calls, &r.Saved, &r.Spent, &r.Estimated)
	if errors.Is(err, sql.ErrNoRows) {
		return r, nil
	}
	return r, err
}

// Find returns the totals of a session; "" means all sessions. It counts the waiting texts first;
// those of another process may be missing for a second.
func (m *Counter) Find(ctx context.Context, session string) (r Totals, err error) {
	m.flush()
	err = m.db.View(ctx, func(tx *store.Tx) error {
		r, err = read(ctx, tx, session)
		return err
	})
	return r, err
}

// Close counts the waiting texts and writes the totals.
func (m *Counter) Close() error {
	m.mu.Lock()
	m.closed = true
	stopped := m.timer != nil && m.timer.Stop()
	m.mu.Unlock()
	if stopped {
		m.run()
	}
	m.runs.Wait()
	return nil
}
