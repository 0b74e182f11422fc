package clock_test

import (
	"sync"
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

func TestClockWithinAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var mu sync.Mutex
		var expired []time.Duration
		note := func() {
			mu.Lock()
			defer mu.Unlock()
			expired = append(expired, time.Since(began))
		}
		outer := clock.New(time.Hour, func() {})
		outer.Within(2*time.Second, note) // waits for the outer one
		outer.Resume()
		time.Sleep(time.Second)
		outer.Pause()
		time.Sleep(100 * time.Second)
		outer.Within(5*time.Second, note) // begins in the pause
		outer.Resume()
		stopped := outer.Within(time.Second, note)
		stopped.Stop()
		time.Sleep(10 * time.Second)
		outer.Within(time.Second, note)
		outer.Stop()
		time.Sleep(time.Hour)
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		if len(expired) != 2 || expired[0] != 102*time.Second || expired[1] != 106*time.Second {
			t.Errorf("expired after %v", expired)
		}
	})
}
