package journal

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"slices"
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

// Unfinished describes the record of an execution that did not complete and is not running.
type Unfinished struct {
	Execution string
	State     State
	Reason    Reason
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
	if r, request, err = openRun(ctx, l, id); err != nil {
		l.removeRunning(id)
		return nil, nil, err
	}
	r.replay.concurrent = concurrent(request)
	return r, request, nil
}

// HasRecord reports whether an execution has a record, also one of a live process.
func (l *Log) HasRecord(ctx context.Context, id string) (has bool, err error) {
	err = l.calls.View(ctx, func(tx *store.Tx) error {
		return tx.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM runs WHERE execution = ? AND recorded > 0)", id).Scan(&has)
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

func openRun(ctx context.Context, l *Log, id string) (r *Record, request []byte, err error) {
	r = l.run(id, nil, false)
	if err := setCipher(r); err != nil {
		return nil, nil, err
	}
	r.pending.stored = true
	err = l.calls.Update(ctx, func(tx *store.Tx) error {
		if request, err = claimRecord(ctx, r, tx); err != nil {
			return err
		}
		return readRecord(ctx, r, tx)
	})
	return r, request, err
}

// claimRecord makes this process the owner of the record and decrypts its request. Afterwards a person, and no
// daemon, continues a run that had an end.
func claimRecord(ctx context.Context, r *Record, tx *store.Tx) (request []byte, err error) {
	var created int64
	var recorded int
	var ciphertext []byte
	var was OnRestart
	b := &r.before
	err = tx.QueryRowContext(ctx, "SELECT state, outcome, reason, on_restart, created, bytes, recorded, request FROM runs WHERE "+
		"execution = ? AND recorded > 0", r.id).
		Scan(&b.State, &b.Outcome, &b.Reason, &was, &created, &r.pending.kept, &recorded, &ciphertext)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil, unknown(r.id)
	case err != nil:
		return nil, err
	case recorded == 2:
		return nil, fault.New(fault.Exhausted, "execution %.60s cannot be resumed: its record exceeded %d MiB between two calls with "+
			"possible side effects, or %d MiB in all", r.id, maxWaiting>>20, maxRun>>20).
			WithHint("check what it did with `sandpiper executions list`, then run the remaining work as a new execution")
	}
	r.created, b.onRestart = time.UnixMilli(created), was
	if request, err = r.cipher.decrypt(ofRequest, 0, ciphertext); err != nil {
		return nil, err
	}
	set := "on_restart = '', due = NULL, events = ''"
	if b.State == Running { // a daemon has claimed it, or it was interrupted
		set = ""
	}
	if moved, err := move(ctx, r.log.cfg.Process, tx, r.id, reopen, Running, set); err != nil || !moved {
		return nil, cmp.Or(err, elsewhere(r.id))
	}
	return request, nil
}

// readRecord decrypts the recorded host calls.
func readRecord(ctx context.Context, r *Record, tx *store.Tx) error {
	rows, err := tx.QueryContext(ctx, "SELECT number, method, server, tool, state, step, arguments, answer FROM run_events WHERE "+
		"execution = ? AND number > 0 ORDER BY number", r.id)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		e := &entry{stored: true}
		var args, answer []byte
		if err := rows.Scan(&e.number, &e.ask.Method, &e.ask.Ref.Server, &e.ask.Ref.Tool, &e.state, &e.ask.Step, &args,
			&answer); err != nil {
			return err
		}
		if e.ask.Args, err = r.cipher.decrypt(ofArguments, e.number, args); err != nil {
			return err
		}
		if answer != nil {
			if e.answer, err = r.cipher.decrypt(ofAnswer, e.number, answer); err != nil {
				return err
			}
		}
		if err := recall(r, e); err != nil {
			return err
		}
	}
	r.replay.dropInner()
	return rows.Err()
}

// Questions returns the number of the last recorded question, and what identifies those without an answer, by
// number.
func (r *Record) Questions() (last int, open map[int]string) { return r.replay.put, r.replay.waited }

// ClockReadings are the clock readings of earlier runs.
func (r *Record) ClockReadings() []int64 {
	if r == nil {
		return nil
	}
	return r.replay.clock
}

// resumable is a condition of runs that a person can resume: they have a record, and no daemon continues
// them.
const resumable = "recorded > 0 AND (on_restart = '' OR state = 'ended')"

// makeRoom deletes records beyond the limits.
func makeRoom(ctx context.Context, tx *store.Tx, p *Process) error {
	old, err := beyondLimits(ctx, tx, p)
	if err != nil {
		return err
	}
	for _, id := range old {
		if err := forgetIn(ctx, p, tx, id); err != nil {
			return err
		}
	}
	return nil
}

// forgetIn deletes a record, and its run unless that has a result or runs a workflow.
func forgetIn(ctx context.Context, p *Process, tx *store.Tx, id string) error {
	var kept bool
	if err := tx.QueryRowContext(ctx, "SELECT result IS NOT NULL OR workflow != '' FROM runs WHERE execution = ?", id).
		Scan(&kept); err != nil {
		return err
	}
	to := absent
	if kept {
		to = Ended
	}
	moved, err := move(ctx, p, tx, id, forget, to, "reason = '', outcome = CASE outcome WHEN '' THEN 'interrupted' ELSE outcome END")
	if err != nil || !moved {
		return err
	}
	return deleteRecord(ctx, tx, id)
}

func beyondLimits(ctx context.Context, tx *store.Tx, p *Process) (old []string, err error) {
	rows, err := tx.QueryContext(ctx, "SELECT execution, owner, changed, bytes FROM runs WHERE "+resumable+" ORDER BY changed DESC")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	n, size, since := 0, int64(0), time.Now().Add(-keptFor).UnixMilli()
	for rows.Next() {
		var id, owner string
		var changed, bytes int64
		if err := rows.Scan(&id, &owner, &changed, &bytes); err != nil {
			return nil, err
		}
		n, size = n+1, size+bytes
		if (n > keptRuns || size > keptBytes || changed < since) && !p.isAlive(owner) {
			old = append(old, id)
		}
	}
	return old, rows.Err()
}

// ListUnfinished lists the runs that did not come to their end, that no live process executes, and
// that no daemon continues in the background, latest first.
func (l *Log) ListUnfinished(ctx context.Context) (all []Unfinished, err error) {
	if l.cfg.Process == nil {
		return nil, nil
	}
	err = l.calls.View(ctx, func(tx *store.Tx) error {
		if all, err = listUnfinished(ctx, l, tx); err != nil {
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

func listUnfinished(ctx context.Context, l *Log, tx *store.Tx) (all []Unfinished, err error) {
	rows, err := tx.QueryContext(ctx, "SELECT execution, state, CASE recorded WHEN 2 THEN 'too_large' ELSE reason END, owner, created, "+
		"changed FROM runs WHERE "+resumable+" ORDER BY changed DESC")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var one Unfinished
		var owner string
		var created, changed int64
		if err := rows.Scan(&one.Execution, &one.State, &one.Reason, &owner, &created, &changed); err != nil {
			return nil, err
		}
		if one.State == Running && l.cfg.Process.isAlive(owner) {
			continue
		}
		one.Created, one.Changed = time.UnixMilli(created).UTC(), time.UnixMilli(changed).UTC()
		all = append(all, one)
	}
	return all, rows.Err()
}

// count fills in the tools and the numbers of calls.
func (f *Unfinished) count(ctx context.Context, tx *store.Tx) error {
	rows, err := tx.QueryContext(ctx, "SELECT method, server, tool, state FROM run_events WHERE execution = ? AND number > 0 ORDER "+
		"BY number", f.Execution)
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
