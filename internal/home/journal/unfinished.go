package journal

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/store"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
)

// Limits of a tenant's unfinished records. The oldest are deleted first; records of live
// processes stay.
const (
	keptRuns  = 200
	keptBytes = 256 << 20
	keptFor   = 7 * 24 * time.Hour
)

// State is the state of a record: a constant of this package, or how its execution ended.
type State string

const (
	Running   State = "running"   // running, or interrupted by the end of its process
	Planned   State = "planned"   // a plan that was not applied to its end
	Suspended State = "suspended" // it waited for a person when its process ended
	Sleeping  State = "waiting"   // it waits for a time or a signal, as a background execution
	TooLarge  State = "too_large" // its record exceeded the limits: it cannot be replayed
)

// Unfinished describes the record of an execution that did not complete and is not running.
type Unfinished struct {
	Execution string
	State     State
	Created   time.Time
	Changed   time.Time
	Answered  int        // host calls with a recorded answer, without those of an unknown outcome
	Unknown   int        // calls with an unknown outcome
	Tools     []tool.Ref // tools that were called
}

// OpenRecord takes over the record of an execution that is not running, for a replay, and
// returns its request. The error is NotFound if there is none, Unavailable if a live process
// owns it or it cannot be decrypted, and Exhausted if it exceeded the limits.
func (l *Log) OpenRecord(ctx context.Context, id string, concurrent func(request []byte) bool) (r *Record, request []byte, err error) {
	if l.cfg.Process == nil {
		return nil, nil, unknown(id)
	}
	if !l.enter(id) {
		return nil, nil, elsewhere(id)
	}
	if r, request, err = l.openRun(ctx, id); err != nil {
		l.removeRunning(id)
		return nil, nil, err
	}
	r.concurrent = concurrent(request)
	return r, request, nil
}

// HasRecord reports whether an execution has a record, also one of a live process.
func (l *Log) HasRecord(ctx context.Context, id string) (has bool, err error) {
	err = l.calls.View(ctx, func(tx *store.Tx) error {
		return tx.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM journal_executions WHERE execution = ?)", id).Scan(&has)
	})
	return has, err
}

func unknown(id string) error {
	return fault.New(fault.NotFound, "there is no execution %.60q that can be resumed", id)
}

func elsewhere(id string) error {
	return fault.New(fault.Unavailable, "execution %.60s is running in another Sandpiper process", id).
		WithHint("wait until it ends, or stop that process")
}

// enter marks an execution as running in this process; it returns false if it already is.
func (l *Log) enter(id string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.running[id] {
		return false
	}
	l.running[id] = true
	return true
}

func (l *Log) openRun(ctx context.Context, id string) (r *Record, request []byte, err error) {
	r = l.run(id, nil, false)
	if err := r.setBox(); err != nil {
		return nil, nil, err
	}
	r.stored = true
	err = l.calls.Update(ctx, func(tx *store.Tx) error {
		if request, err = r.claim(ctx, tx); err != nil {
			return err
		}
		return r.read(ctx, tx)
	})
	return r, request, err
}

// claim makes this process the owner of the record and decrypts its request.
func (r *Record) claim(ctx context.Context, tx *store.Tx) (request []byte, err error) {
	var state, process string
	var created int64
	var ciphertext []byte
	err = tx.QueryRowContext(ctx, "SELECT state, process, created, bytes, request FROM journal_executions WHERE execution = ?", r.id).
		Scan(&state, &process, &created, &r.kept, &ciphertext)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil, unknown(r.id)
	case err != nil:
		return nil, err
	case State(state) == TooLarge:
		return nil, fault.New(fault.Exhausted, "execution %.60s cannot be resumed: its record exceeded %d MiB between two calls with possible side effects, or %d MiB in all", r.id, maxWaiting>>20, maxRun>>20).
			WithHint("check what it did with `sandpiper executions list`, then run the remaining work as a new execution")
	}
	r.Ended = State(state)
	name, err := r.log.cfg.Process.name()
	if err != nil {
		return nil, err
	}
	if process != name && r.log.cfg.Process.isAlive(process) {
		return nil, elsewhere(r.id)
	}
	r.created = time.UnixMilli(created)
	if request, err = r.box.decrypt(ofRequest, 0, ciphertext); err != nil {
		return nil, err
	}
	_, err = tx.ExecContext(ctx, "UPDATE journal_executions SET state = ?, process = ?, changed = ? WHERE execution = ?", string(Running), name, time.Now().UnixMilli(), r.id)
	return request, err
}

// read decrypts the recorded host calls.
func (r *Record) read(ctx context.Context, tx *store.Tx) error {
	rows, err := tx.QueryContext(ctx, "SELECT number, method, server, tool, state, step, arguments, answer FROM journal_host_calls WHERE execution = ? ORDER BY number", r.id)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		e := &entry{stored: true}
		var args, answer []byte
		if err := rows.Scan(&e.number, &e.ask.Method, &e.ask.Ref.Server, &e.ask.Ref.Tool, &e.state, &e.ask.Step, &args, &answer); err != nil {
			return err
		}
		if e.ask.Args, err = r.box.decrypt(ofArguments, e.number, args); err != nil {
			return err
		}
		if answer != nil {
			if e.answer, err = r.box.decrypt(ofAnswer, e.number, answer); err != nil {
				return err
			}
		}
		if err := r.recall(e); err != nil {
			return err
		}
	}
	r.dropInner()
	return rows.Err()
}

// recall adds a recorded entry to those that the replay has to repeat.
func (r *Record) recall(e *entry) error {
	r.last = max(r.last, e.number)
	switch e.ask.Method {
	case methodSteps:
		return r.recallSteps(e)
	case readings:
		var some []int64
		err := json.Unmarshal(e.answer, &some)
		r.clock = append(r.clock, some...)
		r.clocks = append(r.clocks, clockReadings{e.ask.Step, some})
		return err
	case question:
		return r.recallQuestion(e)
	case skillUsed:
		return r.recallSkill(e)
	}
	k := e.ask.key()
	r.past[k] = append(r.past[k], e)
	r.left = append(r.left, e)
	return nil
}

// recallQuestion adds a recorded question. An unanswered one is closed here, because the
// replay asks and records it again.
func (r *Record) recallQuestion(e *entry) (err error) {
	if r.put, err = strconv.Atoi(string(e.ask.Args)); err != nil || e.state == answered {
		return err
	}
	r.waited++
	r.setAnswer(e, Answer{})
	return nil
}

// Questions returns the number of the last recorded question and how many had no answer when
// the execution was interrupted.
func (r *Record) Questions() (last, open int) { return r.put, r.waited }

// ClockReadings are the clock readings of earlier runs.
func (r *Record) ClockReadings() []int64 {
	if r == nil {
		return nil
	}
	return r.clock
}

// makeRoom deletes records beyond the limits.
func makeRoom(ctx context.Context, tx *store.Tx, p *Process) error {
	old, err := beyondLimits(ctx, tx, p)
	for _, id := range old {
		if err := deleteRecord(ctx, tx, id); err != nil {
			return err
		}
	}
	return err
}

func beyondLimits(ctx context.Context, tx *store.Tx, p *Process) (old []string, err error) {
	rows, err := tx.QueryContext(ctx, "SELECT execution, process, changed, bytes FROM journal_executions WHERE execution NOT IN (SELECT execution FROM journal_background WHERE state != 'ended') ORDER BY changed DESC")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	n, size, since := 0, int64(0), time.Now().Add(-keptFor).UnixMilli()
	for rows.Next() {
		var id, process string
		var changed, bytes int64
		if err := rows.Scan(&id, &process, &changed, &bytes); err != nil {
			return nil, err
		}
		n, size = n+1, size+bytes
		if (n > keptRuns || size > keptBytes || changed < since) && !p.isAlive(process) {
			old = append(old, id)
		}
	}
	return old, rows.Err()
}

// ListUnfinished lists the runs that did not come to their end, that no living process executes, and
// that no daemon continues in the background, latest first.
func (l *Log) ListUnfinished(ctx context.Context) (all []Unfinished, err error) {
	if l.cfg.Process == nil {
		return nil, nil
	}
	err = l.calls.View(ctx, func(tx *store.Tx) error {
		if all, err = l.listUnfinished(ctx, tx); err != nil {
			return err
		}
		for i := range all {
			if err := all[i].count(ctx, tx); err != nil {
				return err
			}
		}
		return nil
	})
	return all, err
}

func (l *Log) listUnfinished(ctx context.Context, tx *store.Tx) (all []Unfinished, err error) {
	rows, err := tx.QueryContext(ctx, "SELECT execution, state, process, created, changed FROM journal_executions WHERE execution NOT IN (SELECT execution FROM journal_background WHERE state != 'ended') ORDER BY changed DESC")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var one Unfinished
		var process string
		var created, changed int64
		if err := rows.Scan(&one.Execution, &one.State, &process, &created, &changed); err != nil {
			return nil, err
		}
		if l.cfg.Process.isAlive(process) {
			continue
		}
		one.Created, one.Changed = time.UnixMilli(created).UTC(), time.UnixMilli(changed).UTC()
		all = append(all, one)
	}
	return all, rows.Err()
}

// count fills in the tools and the numbers of calls.
func (f *Unfinished) count(ctx context.Context, tx *store.Tx) error {
	rows, err := tx.QueryContext(ctx, "SELECT method, server, tool, state FROM journal_host_calls WHERE execution = ? ORDER BY number", f.Execution)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var method, state string
		var ref tool.Ref
		if err := rows.Scan(&method, &ref.Server, &ref.Tool, &state); err != nil {
			return err
		}
		if method == readings || method == question || method == skillUsed || method == methodStep || method == methodSteps {
			continue
		}
		switch state {
		case answered:
			f.Answered++
		case begun, unsure:
			f.Unknown++
		}
		if method == "" && !slices.Contains(f.Tools, ref) {
			f.Tools = append(f.Tools, ref)
		}
	}
	return rows.Err()
}
