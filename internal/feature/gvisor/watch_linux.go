package gvisor

import (
	"sync"
	"time"
)

const (
	watchMost  = 50 * time.Millisecond // between two measurements
	watchLeast = 5 * time.Millisecond
	fastest    = 4 << 30 // bytes that code can allocate in a second
)

// memoryWatch kills a sandbox that uses more memory than its limit. RLIMIT_AS bounds what one
// process can allocate between two measurements.
type memoryWatch struct {
	done chan struct{}
	wg   sync.WaitGroup
	peak int64
	over bool
}

func (g *guest) watchMemory(limit int64) *memoryWatch {
	m := &memoryWatch{done: make(chan struct{})}
	m.wg.Go(func() {
		timer := time.NewTimer(watchInterval(limit))
		defer timer.Stop()
		for {
			select {
			case <-m.done:
				return
			case <-timer.C:
			}
			used := max(0, g.sentry.memory()-g.base)
			m.peak = max(m.peak, used)
			if used > limit {
				m.over = true
				g.kill()
				return
			}
			timer.Reset(watchInterval(limit - used))
		}
	})
	return m
}

// watchInterval returns the time in which code can allocate the memory that is free.
func watchInterval(free int64) time.Duration {
	d := time.Duration(float64(free) / fastest * float64(time.Second))
	return min(max(d, watchLeast), watchMost)
}

// stop ends the watch after a last measurement, since short code may end before the first.
func (m *memoryWatch) stop(g *guest) {
	close(m.done)
	m.wg.Wait()
	m.peak = max(m.peak, g.sentry.memory()-g.base)
}
