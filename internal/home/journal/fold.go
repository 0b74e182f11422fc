package journal

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strconv"

	"github.com/sandpiper-mcp/sandpiper/internal/store"
	"github.com/sandpiper-mcp/sandpiper/internal/store/appendlog"
)

// folding is the combined change to the database of lines of the log of calls: a call that has ended is
// one row, and a record that was begun and deleted is none.
type folding struct {
	calls   []*loggedCall
	began   map[string]*loggedCall // by reference
	ended   []loggedCall           // calls that are in the database
	records map[string]*recordChange
	order   []*recordChange
}

// loggedCall is an entry. Its reference identifies it in the database while it has no end.
type loggedCall struct {
	ref        string
	began, end line
}

// recordChange is the change of one record.
type recordChange struct {
	id      string
	deleted string         // process that has completed it: what was in the database before is deleted
	entered *line          // nil if it is in the database
	large   bool           // its content is deleted
	steps   []int          // that have ended
	rows    map[int64]line // by number
	changed int64
}

// add adds the lines of a frame.
func (f *folding) add(frame appendlog.Frame) error {
	lines, err := readLines(frame.Payload)
	for _, l := range lines {
		switch l.kind {
		case callBegan, callEnded:
			f.addCall(frame.Writer+"."+strconv.FormatInt(l.number, 10), l)
		default:
			f.record(l.execution).add(l)
		}
	}
	return err
}

func (f *folding) addCall(ref string, l line) {
	switch c := f.began[ref]; {
	case l.kind == callBegan:
		c = &loggedCall{ref: ref, began: l}
		if f.began == nil {
			f.began = map[string]*loggedCall{}
		}
		f.began[ref] = c
		f.calls = append(f.calls, c)
	case c != nil:
		c.end = l
	default:
		f.ended = append(f.ended, loggedCall{ref: ref, end: l})
	}
}

func (f *folding) record(id string) *recordChange {
	if r := f.records[id]; r != nil {
		return r
	}
	if f.records == nil {
		f.records = map[string]*recordChange{}
	}
	r := &recordChange{id: id, rows: map[int64]line{}}
	f.records[id], f.order = r, append(f.order, r)
	return r
}

func (r *recordChange) add(l line) {
	r.changed = max(r.changed, l.at)
	switch l.kind {
	case recordEntered:
		r.entered = &l
	case recordTooLarge:
		r.large, r.steps, r.rows = true, nil, map[int64]line{}
	case stepEnded:
		maps.DeleteFunc(r.rows, func(number int64, h line) bool { return number == l.number || number > l.number && h.step == l.number })
		r.steps = append(r.steps, int(l.number))
	case hostCall:
		r.rows[l.number] = l
	case recordEnded:
		*r = recordChange{id: r.id, deleted: l.state, rows: map[int64]line{}}
	}
}

// apply makes the changes in the database.
func (f *folding) apply(ctx context.Context, tx *store.Tx, cfg *Config) error {
	if err := f.applyCalls(ctx, tx, cfg.MaxCalls); err != nil {
		return err
	}
	entered := false
	for _, r := range f.order {
		if err := r.apply(ctx, tx); err != nil {
			return err
		}
		entered = entered || r.entered != nil
	}
	if !entered || cfg.Process == nil {
		return nil
	}
	return makeRoom(ctx, tx, cfg.Process)
}

// applyCalls inserts and completes entries, and deletes old ones.
func (f *folding) applyCalls(ctx context.Context, tx *store.Tx, most int) error {
	slices.SortStableFunc(f.calls, func(a, b *loggedCall) int { return cmp.Compare(a.began.at, b.began.at) })
	for _, c := range f.calls {
		var ended, outcome, ref any
		if ref = c.ref; c.end.kind != 0 {
			ended, outcome, ref = c.end.at, c.end.state, nil
		}
		r, err := tx.ExecContext(ctx, "INSERT INTO journal_calls (execution, server, tool, arguments, began, ended, outcome, ref) VALUES "+
			"(?, ?, ?, ?, ?, ?, ?, ?)",
			c.began.execution, c.began.server, c.began.tool, string(c.began.arguments), c.began.at, ended, outcome, ref)
		if err != nil {
			return err
		}
		id, err := r.LastInsertId()
		if err == nil && id%100 == 0 {
			_, err = tx.ExecContext(ctx, "DELETE FROM journal_calls WHERE id <= ?", id-int64(most))
		}
		if err != nil {
			return err
		}
	}
	for _, c := range f.ended {
		if _, err := tx.ExecContext(ctx, "UPDATE journal_calls SET ended = ?, outcome = ?, ref = NULL WHERE ref = ?", c.end.at, c.end.state,
			c.ref); err != nil {
			return err
		}
	}
	return nil
}

func (r *recordChange) apply(ctx context.Context, tx *store.Tx) error {
	if r.deleted != "" {
		if err := deleteCompleted(ctx, tx, r.id, r.deleted); err != nil {
			return err
		}
	}
	if r.entered != nil {
		if err := enterRecord(ctx, tx, *r.entered); err != nil {
			return err
		}
	}
	var known bool // a person may have cancelled it
	if err := tx.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM runs WHERE execution = ? AND recorded > 0)", r.id).
		Scan(&known); err != nil || !known {
		return err
	}
	return r.applyContent(ctx, tx)
}

// applyContent deletes the entries of steps that have ended, and writes host calls.
func (r *recordChange) applyContent(ctx context.Context, tx *store.Tx) error {
	if r.large {
		return emptyRecord(ctx, tx, r.id, r.changed)
	}
	freed, err := deleteSteps(ctx, tx, r.id, r.steps)
	if err != nil {
		return err
	}
	size := -freed
	for _, number := range slices.Sorted(maps.Keys(r.rows)) {
		l := r.rows[number]
		if err := putHostCall(ctx, tx, l); err != nil {
			return err
		}
		size += len(l.arguments) + len(l.answer)
	}
	_, err = tx.ExecContext(ctx, "UPDATE runs SET changed = ?, bytes = bytes + ? WHERE execution = ?", r.changed, size, r.id)
	return err
}
