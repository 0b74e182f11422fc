package home

import (
	"os"
	"path/filepath"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/home/stream"
)

// streamsDir is the directory of a tenant's answers, in its private directory.
const streamsDir = "streams"

// sweepEvery is the time between two deletions of expired answers.
const sweepEvery = 10 * time.Minute

// sweepStreams deletes expired answers of all tenants, until Close. A tenant that is not used
// again would otherwise keep those that a daemon left when it ended.
func (t *pool) sweepStreams() {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		t.sweepStreamsOnce()
		select {
		case <-t.stop:
			return
		case <-tick.C:
		}
	}
}

func (t *pool) sweepStreamsOnce() {
	dirs, err := os.ReadDir(t.layout.private())
	if err != nil {
		t.cfg.Log.Warn("delete expired answers", "error", err)
		return
	}
	for _, d := range dirs {
		select {
		case <-t.stop:
			return
		default:
		}
		if err := stream.Sweep(filepath.Join(t.layout.private(), d.Name(), streamsDir), 0); err != nil {
			t.cfg.Log.Warn("delete expired answers", "error", err)
		}
	}
}
