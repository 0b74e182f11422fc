package clock_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/clock"
)

func TestClock(t *testing.T) {
	second := time.Second
	for _, tc := range []struct {
		name string
		use  func(c *clock.Clock)
		want time.Duration // after which it expires; 0 means never
	}{
		{"does not run before it is started", func(*clock.Clock) {}, 0},
		{"runs its time", func(c *clock.Clock) { c.Resume() }, 10 * second},
		{"waiting first costs nothing", func(c *clock.Clock) { time.Sleep(7 * second); c.Resume() }, 17 * second},
		{"a pause is added", func(c *clock.Clock) {
			c.Resume()
			time.Sleep(4 * second)
			c.Pause()
			time.Sleep(100 * second)
			c.Resume()
		}, 110 * second},
		{"two pauses need two resumes", func(c *clock.Clock) {
			c.Resume()
			c.Pause()
			c.Pause()
			time.Sleep(20 * second)
			c.Resume()
			time.Sleep(20 * second)
			c.Resume()
		}, 50 * second},
		{"a resume too many does nothing", func(c *clock.Clock) { c.Resume(); c.Resume() }, 10 * second},
		{"never resumed", func(c *clock.Clock) { c.Resume(); c.Pause() }, 0},
		{"stopped", func(c *clock.Clock) { c.Resume(); time.Sleep(9 * second); c.Stop(); c.Pause(); c.Resume() }, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				var expired time.Duration
				c := clock.New(10*second, func() { expired = time.Since(began) })
				tc.use(c)
				time.Sleep(time.Hour)
				synctest.Wait()
				if expired != tc.want {
					t.Errorf("expired after %v, want %v", expired, tc.want)
				}
			})
		})
	}
}
