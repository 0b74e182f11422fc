package session

import (
	"context"
	"errors"
	"os"
	"slices"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/store"
)

const (
	// showAfter delays the update of the projection after a change, so that several
	// quick steps cost one write and no answer waits for it.
	showAfter = 50 * time.Millisecond
	// showWait bounds one Refresh in the background.
	showWait = 10 * time.Second
)

// soon schedules an update of the projection.
func (l *shown) soon() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.due != nil || l.closed {
		return
	}
	l.busy.Add(1)
	l.due = time.AfterFunc(showAfter, l.show)
}

// show runs the scheduled Refresh. If it fails, the next Refresh retries.
func (l *shown) show() {
	defer l.busy.Done()
	l.mu.Lock()
	l.due = nil
	l.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), showWait)
	defer cancel()
	_ = l.Refresh(ctx)
}

// Close updates the projection, and stores the log of steps in the database. Append must not be called after it.
func (l *shown) Close() error {
	l.mu.Lock()
	l.closed = true
	early := l.due != nil && l.due.Stop()
	l.mu.Unlock()
	if early {
		l.show()
	}
	l.busy.Wait()
	return l.steps.Close()
}

// Refresh updates the projection from the database. It costs one small query if nothing has
// changed.
func (l *shown) Refresh(ctx context.Context) error {
	version, err := l.changed(ctx)
	if err != nil {
		return err
	}
	err = l.view.Refresh(ctx, version, func() (int64, error) { return l.reconcile(ctx) })
	if _, ok := errors.AsType[*fault.Error](err); err == nil || ok {
		return err
	}
	return fault.Wrap(fault.Unavailable, err, "update the directory of the session logs")
}

// changed returns the number of the latest change; 0 before the first.
func (l *shown) changed(ctx context.Context) (n int64, err error) {
	err = l.steps.View(ctx, func(tx *store.Tx) error {
		return tx.QueryRowContext(ctx, "SELECT coalesce(max(changed), 0) FROM sessions").Scan(&n)
	})
	return n, err
}

// reconcile writes a file for each session and deletes others. The modification time of a file
// identifies the change that it contains.
func (l *shown) reconcile(ctx context.Context) (version int64, err error) {
	files := map[string]int64{}
	var ids []string // the latest first
	err = l.steps.View(ctx, func(tx *store.Tx) error {
		return each(ctx, tx, "SELECT id, changed FROM sessions ORDER BY changed DESC", nil, func(r scanner) error {
			var id string
			var changed int64
			err := r.Scan(&id, &changed)
			ids, files[id+".json"] = append(ids, id), changed
			return err
		})
	})
	if err != nil {
		return 0, err
	}
	if len(ids) > 0 {
		version = files[ids[0]+".json"]
		files[current+".json"] = version
	}
	err = l.view.Prune(func(name string) bool { _, wanted := files[name]; return wanted })
	for i, id := range ids {
		if err == nil {
			err = l.file(ctx, id, id+".json", files[id+".json"])
		}
		if err == nil && i == 0 && !l.shows(current+".json", version) {
			err = l.view.Link(id+".json", current+".json")
		}
	}
	return version, err
}

// shows reports whether the file contains that change.
func (l *shown) shows(name string, changed int64) bool {
	fi, err := os.Lstat(l.view.Path(name))
	return err == nil && fi.ModTime().Equal(stamp(changed))
}

// file writes the JSON of a session, unless the file contains that change already.
func (l *shown) file(ctx context.Context, id, name string, changed int64) error {
	if l.shows(name, changed) {
		return nil
	}
	content, err := l.render(ctx, id)
	if fault.KindOf(err) == fault.NotFound {
		return nil // deleted by another process
	}
	if err != nil {
		return err
	}
	return l.view.Put(name, content, stamp(changed))
}

// render returns the file of a session. It reads and redacts only the tasks that are not in the
// cache.
func (l *shown) render(ctx context.Context, id string) ([]byte, error) {
	var s Session
	var numbers []int
	var tasks [][]byte
	var missing []Step
	err := l.read(ctx, id, func(tx *store.Tx) (err error) {
		if s, err = l.loadHead(ctx, tx, id); err != nil {
			return err
		}
		if numbers, err = stepNumbers(ctx, tx, id); err != nil {
			return err
		}
		tasks = make([][]byte, len(numbers))
		for i, n := range numbers {
			tasks[i] = l.seen.find(renderedKey{id, s.Started.UnixMilli(), n})
		}
		if first := slices.IndexFunc(tasks, func(t []byte) bool { return t == nil }); first >= 0 {
			missing, err = l.loadSteps(ctx, tx, id, numbers[first])
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	for _, step := range missing {
		i, _ := slices.BinarySearch(numbers, step.Number)
		if tasks[i] != nil {
			continue
		}
		if tasks[i], err = l.renderTask(ctx, id, step); err != nil {
			return nil, err
		}
		l.seen.put(renderedKey{id, s.Started.UnixMilli(), step.Number}, tasks[i])
	}
	if err := l.redactHead(ctx, &s); err != nil {
		return nil, err
	}
	head, err := indented(s, "")
	return withTasks(head, tasks), err
}

// stamp returns the modification time of a file that shows a change.
func stamp(changed int64) time.Time { return time.UnixMilli(changed) }
