package execution

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestClock(t *testing.T) {
	second := time.Second
	for _, tc := range []struct {
		name string
		use  func(c *clock)
		want time.Duration // after which it expires; 0 means never
	}{
		{"does not run before it is started", func(*clock) {}, 0},
		{"runs its time", func(c *clock) { c.resume() }, 10 * second},
		{"waiting first costs nothing", func(c *clock) { time.Sleep(7 * second); c.resume() }, 17 * second},
		{"a pause is added", func(c *clock) {
			c.resume()
			time.Sleep(4 * second)
			c.pause()
			time.Sleep(100 * second)
			c.resume()
		}, 110 * second},
		{"two pauses need two resumes", func(c *clock) {
			c.resume()
			c.pause()
			c.pause()
			time.Sleep(20 * second)
			c.resume()
			time.Sleep(20 * second)
			c.resume()
		}, 50 * second},
		{"a resume too many does nothing", func(c *clock) { c.resume(); c.resume() }, 10 * second},
		{"paused for ever", func(c *clock) { c.resume(); c.pause() }, 0},
		{"stopped", func(c *clock) { c.resume(); time.Sleep(9 * second); c.stop(); c.pause(); c.resume() }, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				var expired time.Duration
				c := newClock(10*second, func() { expired = time.Since(began) })
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
