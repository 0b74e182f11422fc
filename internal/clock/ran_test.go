package clock_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/clock"
)

func TestRanLeavesOutPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := clock.New(time.Hour, func() {})
		defer c.Stop()
		time.Sleep(time.Second) // not started
		c.Resume()
		time.Sleep(2 * time.Second)
		c.Pause()
		time.Sleep(time.Minute)
		c.Resume()
		time.Sleep(3 * time.Second)
		c.Restart(time.Minute)
		time.Sleep(4 * time.Second)
		if got := c.Ran(); got != 9*time.Second {
			t.Errorf("ran %v, want 9s", got)
		}
	})
}
