package audit

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

// Unreadable is the kind of a Record whose line cannot be decoded; its other fields are zero.
const Unreadable Kind = "unreadable"

// TailOptions selects the lines of Tail.
type TailOptions struct {
	Last   int       // number of existing lines, at most; 0 means none
	Tenant tenant.ID // only of this one; zero means all
	Follow bool      // continue with new lines until ctx ends
}

// pollInterval is how often Tail checks for new lines.
const pollInterval = 200 * time.Millisecond

// Tail calls f with the last lines of a log, oldest first, and then with new ones. It does
// not verify them, and Config needs no Key. It returns the first error of f.
func Tail(ctx context.Context, cfg Config, o TailOptions, f func(Record) error) error {
	t := tail{dir: cfg.Dir, emit: f}
	if !o.Tenant.IsZero() {
		t.only = fmt.Appendf(nil, `,"tenant":%q,`, o.Tenant)
	}
	if err := t.last(ctx, o.Last); err != nil {
		return err
	}
	if !o.Follow {
		return nil
	}
	every := time.NewTicker(pollInterval)
	defer every.Stop()
	for {
		if err := t.more(ctx); err != nil {
			return err
		}
		select {
		case <-every.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// tail is the position of a Tail.
type tail struct {
	dir  string
	only []byte // text that a line must contain; nil means any line
	emit func(Record) error
	name string // the file that was read last
	at   int64  // the offset in it
}

// last emits the last n lines and records where they end.
func (t *tail) last(ctx context.Context, n int) error {
	files, err := list(t.dir)
	if err != nil {
		return err
	}
	var all [][]byte // newest file first
	for i, name := range slices.Backward(files) {
		if i < len(files)-1 && len(all) >= n {
			break
		}
		var ring [][]byte
		end, err := t.read(ctx, name, 0, func(line []byte) error {
			if n > 0 {
				ring = append(ring[max(0, len(ring)+1-n):], bytes.Clone(line))
			}
			return nil
		})
		if err != nil {
			return err
		}
		if t.name == "" {
			t.name, t.at = name, end
		}
		slices.Reverse(ring)
		all = append(all, ring[:min(len(ring), n-len(all))]...)
	}
	for _, line := range slices.Backward(all) {
		if err := t.emit(record(line)); err != nil {
			return err
		}
	}
	return nil
}

// more emits the lines written since.
func (t *tail) more(ctx context.Context) error {
	files, err := list(t.dir)
	if err != nil {
		return err
	}
	for _, name := range files {
		if name < t.name {
			continue
		}
		if name > t.name {
			t.name, t.at = name, 0
		}
		end, err := t.read(ctx, name, t.at, func(line []byte) error { return t.emit(record(line)) })
		if t.at = end; err != nil {
			return err
		}
	}
	return nil
}

// read calls f with the selected complete lines of a file, and returns where they end.
func (t *tail) read(ctx context.Context, name string, from int64, f func([]byte) error) (end int64, err error) {
	file, err := os.Open(filepath.Join(t.dir, name))
	if errors.Is(err, fs.ErrNotExist) { // deleted since it was listed
		return from, nil
	}
	if err != nil {
		return from, explain(err)
	}
	defer file.Close()
	if _, err := file.Seek(from, io.SeekStart); err != nil {
		return from, explain(err)
	}
	for r := newReader(file); ctx.Err() == nil; {
		line, n, err := next(r)
		if errors.Is(err, io.EOF) {
			return from, nil
		}
		if err != nil {
			return from, explain(err)
		}
		from += n
		if t.only != nil && !bytes.Contains(line, t.only) {
			continue
		}
		if err := f(line); err != nil {
			return from, err
		}
	}
	return from, context.Cause(ctx)
}

func record(line []byte) (r Record) {
	if err := json.Unmarshal(line, &r); err != nil || r.Kind == "" {
		return Record{Line: Line{Kind: Unreadable}}
	}
	return r
}
