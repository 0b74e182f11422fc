package cluster

import (
	"context"
	"io"
	"strings"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/store/bucketlog"
)

// empty returns a body without bytes.
func empty() io.ReadSeeker { return strings.NewReader("") }

// lastHead returns the number of the last entry of a log, 0 if there is none, and its head.
func lastHead(ctx context.Context, log *bucketlog.Log) (last uint64, h head, err error) {
	for n, err := range log.Numbers(ctx, 0) {
		if err != nil {
			return 0, h, err
		}
		last = n.N
	}
	if last > 0 {
		h, err = readHead(ctx, log, last)
	}
	return last, h, err
}

// prune deletes the entries that are not needed to restore a time after oldest, and the contents of none that are left.
func prune(ctx context.Context, log *bucketlog.Log, oldest time.Time) error {
	last, h, err := lastHead(ctx, log)
	if err != nil || last == 0 {
		return err
	}
	first := h.Base
	for {
		h, err := readHead(ctx, log, first)
		if err != nil {
			return err
		}
		if first == 1 || h.Time.Before(oldest) {
			break
		}
		before, err := readHead(ctx, log, first-1)
		if err != nil {
			break // deleted earlier
		}
		first = before.Base
	}
	deleted := false
	for n, err := range log.Numbers(ctx, 0) {
		if err != nil {
			return err
		}
		if n.N >= first {
			break
		}
		if err := log.Delete(ctx, n.N); err != nil { // the oldest first, so that the rest has no gaps
			return err
		}
		deleted = true
	}
	if !deleted {
		return nil
	}
	return dropContents(ctx, log, first, last)
}

// dropContents deletes the contents that no entry from first to last names. No entry is written meanwhile.
func dropContents(ctx context.Context, log *bucketlog.Log, first, last uint64) error {
	used := map[string]bool{}
	for n := first; n <= last; n++ {
		h, err := readHead(ctx, log, n)
		if err != nil {
			return err
		}
		for _, f := range h.Put {
			for _, name := range f.Contents {
				used[name] = true
			}
		}
	}
	for name, err := range log.Contents(ctx) {
		if err != nil {
			return err
		}
		if used[name] {
			continue
		}
		if err := log.Drop(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// erase deletes a log with its contents. The last entry is deleted last: it tells that the rest is to be deleted.
func erase(ctx context.Context, log *bucketlog.Log) error {
	for name, err := range log.Contents(ctx) {
		if err == nil {
			err = log.Drop(ctx, name)
		}
		if err != nil {
			return err
		}
	}
	for n, err := range log.Numbers(ctx, 0) {
		if err == nil {
			err = log.Delete(ctx, n.N)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
