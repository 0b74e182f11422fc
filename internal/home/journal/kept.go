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

// Bounds on the runs of one tenant that did not come to their end. The oldest go
// first; those that run stay.
const (
	keptRuns  = 200
	keptBytes = 256 << 20
	keptFor   = 7 * 24 * time.Hour
)

// State is how it stands with a run: a constant of this package, or the word for
// how its execution ended.
type State string

const (
	Running   State = "running"   // or it did, when its process ended
	Planned   State = "planned"   // it is a plan, which nobody has carried out to its end
	Suspended State = "suspended" // it waited for a person when its process ended
	TooLarge  State = "too_large" // more was asked for than is kept: it cannot be run again
)

// Unfinished is a run that did not come to its end and that no living process executes.
type Unfinished struct {
	Execution string
	State     State
	Created   time.Time
	Changed   time.Time
	Answered  int        // asks that are answered from the record
	Unknown   int        // calls of which it is not known whether they happened
	Tools     []tool.Ref // that were called
}

// OpenRecord takes over a run that no living process executes, so that it can be run
// again, and returns the request too. NotFound says that there is none, Unavailable that another one has it or
// that it does not open, Exhausted that it was too large to be kept.
func (l *Log) OpenRecord(ctx context.Context, id string, concurrent func(request []byte) bool) (r *Record, request []byte, err error) {
	if l.cfg.Process == nil {
		return nil, nil, unknown(id)
	}
	if !l.enter(id) {
		return nil, nil, elsewhere(id)
	}
	if r, request, err = l.openRun(ctx, id); err != nil {
		l.leave(id)
		return nil, nil, err
	}
	r.concurrent = concurrent(request)
	return r, request, nil
}

func unknown(id string) error {
	return fault.New(fault.NotFound, "there is no execution %.60q that can be resumed", id).
		WithHint("one that came to its end, called nothing that may change anything or is more than %d days old is not kept, nor is one in a session: `sandpiper session resume` runs that again", keptFor/(24*time.Hour))
}

func elsewhere(id string) error {
	return fault.New(fault.Unavailable, "execution %.60s is running in a living Sandpiper", id).
		WithHint("wait for it where it was started, or end that process")
}

// enter notes that this process executes a run; false if it does.
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
	key, err := l.cfg.Process.key()
	if err != nil {
		return nil, nil, err
	}
	r = l.run(id, nil, false)
	if r.box, err = newBox(key, l.cfg.Tenant.String(), id); err != nil {
		return nil, nil, err
	}
	r.stored = true
	err = l.cfg.DB.Update(ctx, func(tx *store.Tx) error {
		if request, err = r.claim(ctx, tx); err != nil {
			return err
		}
		return r.read(ctx, tx)
	})
	return r, request, err
}

// claim makes the run one of this process, and opens its request.
func (r *Record) claim(ctx context.Context, tx *store.Tx) (request []byte, err error) {
	var state, process string
	var created int64
	var sealed []byte
	err = tx.QueryRowContext(ctx, "SELECT state, process, created, bytes, request FROM journal_executions WHERE execution = ?", r.id).
		Scan(&state, &process, &created, &r.kept, &sealed)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil, unknown(r.id)
	case err != nil:
		return nil, err
	case State(state) == TooLarge:
		return nil, fault.New(fault.Exhausted, "execution %.60s cannot be resumed: it was answered more than is kept of one, %d MiB between two calls that may change something or %d MiB in all", r.id, maxWaiting>>20, maxRun>>20).
			WithHint("see what it did with `sandpiper executions list`, then run what is left as a new execution")
	}
	name, err := r.log.cfg.Process.name()
	if err != nil {
		return nil, err
	}
	if process != name && r.log.cfg.Process.living(process) {
		return nil, elsewhere(r.id)
	}
	r.created = time.UnixMilli(created)
	if request, err = r.box.open(ofRequest, 0, sealed); err != nil {
		return nil, err
	}
	_, err = tx.ExecContext(ctx, "UPDATE journal_executions SET state = ?, process = ?, changed = ? WHERE execution = ?", string(Running), name, time.Now().UnixMilli(), r.id)
	return request, err
}

// read opens what earlier runs asked for.
func (r *Record) read(ctx context.Context, tx *store.Tx) error {
	rows, err := tx.QueryContext(ctx, "SELECT number, method, server, tool, state, arguments, answer FROM journal_host_calls WHERE execution = ? ORDER BY number", r.id)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		e := &entry{}
		var args, answer []byte
		if err := rows.Scan(&e.number, &e.ask.Method, &e.ask.Ref.Server, &e.ask.Ref.Tool, &e.state, &args, &answer); err != nil {
			return err
		}
		if e.ask.Args, err = r.box.open(ofArguments, e.number, args); err != nil {
			return err
		}
		if answer != nil {
			if e.answer, err = r.box.open(ofAnswer, e.number, answer); err != nil {
				return err
			}
		}
		if err := r.recall(e); err != nil {
			return err
		}
	}
	return rows.Err()
}

// recall has e wait to be asked for again.
func (r *Record) recall(e *entry) error {
	r.last = e.number
	switch e.ask.Method {
	case readings:
		var some []int64
		err := json.Unmarshal(e.answer, &some)
		r.clock = append(r.clock, some...)
		return err
	case question:
		return r.waits(e)
	}
	k := e.ask.key()
	r.past[k] = append(r.past[k], e)
	r.left = append(r.left, e)
	return nil
}

// waits takes in a question. One that nobody has answered will be put again, and
// recorded as that.
func (r *Record) waits(e *entry) (err error) {
	if r.put, err = strconv.Atoi(string(e.ask.Args)); err != nil || e.state == answered {
		return err
	}
	r.waited++
	r.settle(e, Answer{})
	return nil
}

// Questions returns the number of the last question that was put to a person when
// the execution was cut short, and how many had no answer.
func (r *Record) Questions() (last, open int) { return r.put, r.waited }

// ClockReadings are what earlier runs read of the clock.
func (r *Record) ClockReadings() []int64 {
	if r == nil {
		return nil
	}
	return r.clock
}

// makeRoom deletes runs beyond the bounds.
func (l *Log) makeRoom(ctx context.Context, tx *store.Tx) error {
	old, err := l.beyond(ctx, tx)
	for _, id := range old {
		if _, err := tx.ExecContext(ctx, "DELETE FROM journal_executions WHERE execution = ?", id); err != nil {
			return err
		}
	}
	return err
}

func (l *Log) beyond(ctx context.Context, tx *store.Tx) (old []string, err error) {
	rows, err := tx.QueryContext(ctx, "SELECT execution, process, changed, bytes FROM journal_executions ORDER BY changed DESC")
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
		if (n > keptRuns || size > keptBytes || changed < since) && !l.cfg.Process.living(process) {
			old = append(old, id)
		}
	}
	return old, rows.Err()
}

// ListUnfinished lists the runs that did not come to their end and that no living process
// executes, latest first.
func (l *Log) ListUnfinished(ctx context.Context) (all []Unfinished, err error) {
	if l.cfg.Process == nil {
		return nil, nil
	}
	err = l.cfg.DB.View(ctx, func(tx *store.Tx) error {
		if all, err = l.left(ctx, tx); err != nil {
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

func (l *Log) left(ctx context.Context, tx *store.Tx) (all []Unfinished, err error) {
	rows, err := tx.QueryContext(ctx, "SELECT execution, state, process, created, changed FROM journal_executions ORDER BY changed DESC")
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
		if l.cfg.Process.living(process) {
			continue
		}
		one.Created, one.Changed = time.UnixMilli(created).UTC(), time.UnixMilli(changed).UTC()
		all = append(all, one)
	}
	return all, rows.Err()
}

// count fills in what was asked for.
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
		if method == readings || method == question {
			continue
		}
		switch state {
		case answered:
			f.Answered++
		case begun:
			f.Unknown++
		}
		if method == "" && !slices.Contains(f.Tools, ref) {
			f.Tools = append(f.Tools, ref)
		}
	}
	return rows.Err()
}
