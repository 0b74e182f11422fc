// Package clock provides a time limit that can be paused, so that the time in which a
// person thinks about a question does not count.
//
// A Clock is safe for concurrent use. It does not measure wall time and reports nothing.
package clock

import (
	"maps"
	"slices"
	"sync"
	"time"
)

// Clock is a time limit that can be paused. It starts paused, so that waiting in the
// queue costs no time, and is paused while a question is open. Pauses nest: the clock
// runs again when all of them have been resumed.
type Clock struct {
	expired func() // called once, in its own goroutine

	mu        sync.Mutex
	ran       time.Duration // before startedAt
	remaining time.Duration
	pauses    int
	startedAt time.Time // zero while paused
	timer     *time.Timer
	ended     bool
	within    map[*Clock]bool // clocks that are paused with this one
	around    *Clock          // nil if there is none
}

// New returns a paused clock that calls expired after it has run for limit.
func New(limit time.Duration, expired func()) *Clock {
	return &Clock{remaining: limit, pauses: 1, expired: expired}
}

// Within returns a clock that runs for limit, and is paused whenever c is. It runs already if c
// does, and stops with it.
func (c *Clock) Within(limit time.Duration, expired func()) *Clock {
	c.mu.Lock()
	defer c.mu.Unlock()
	inner := &Clock{remaining: limit, pauses: c.pauses + 1, expired: expired, around: c}
	if c.within == nil {
		c.within = map[*Clock]bool{}
	}
	c.within[inner] = true
	inner.Resume()
	return inner
}

// Resume undoes one pause; the first call starts the clock.
func (c *Clock) Resume() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for inner := range c.within {
		inner.Resume()
	}
	if c.ended || c.pauses == 0 {
		return
	}
	if c.pauses--; c.pauses > 0 {
		return
	}
	c.startedAt = time.Now()
	c.timer = time.AfterFunc(c.remaining, c.expire)
}

// Pause stops the clock until Resume has been called as often as Pause.
func (c *Clock) Pause() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for inner := range c.within {
		inner.Pause()
	}
	if c.pauses++; c.pauses > 1 || c.ended {
		return
	}
	c.timer.Stop()
	c.ran += time.Since(c.startedAt)
	c.remaining -= time.Since(c.startedAt)
	c.startedAt = time.Time{}
}

// Restart sets what is left of the limit.
func (c *Clock) Restart(limit time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.remaining = limit
	if c.ended || c.startedAt.IsZero() {
		return
	}
	c.ran += time.Since(c.startedAt)
	c.startedAt = time.Now()
	c.timer.Reset(limit)
}

// Remaining returns how much of the limit is left.
func (c *Clock) Remaining() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.startedAt.IsZero() {
		return c.remaining
	}
	return c.remaining - time.Since(c.startedAt)
}

// Ran returns how long the clock has run, without its pauses.
func (c *Clock) Ran() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.startedAt.IsZero() {
		return c.ran
	}
	return c.ran + time.Since(c.startedAt)
}

// Stop stops the clock for good; it does not expire.
func (c *Clock) Stop() {
	if c.around != nil {
		c.around.mu.Lock()
		delete(c.around.within, c)
		c.around.mu.Unlock()
	}
	c.mu.Lock()
	within := slices.Collect(maps.Keys(c.within))
	c.ended = true
	if c.timer != nil {
		c.timer.Stop()
	}
	c.mu.Unlock()
	for _, inner := range within {
		inner.Stop()
	}
}

// expire is called by the timer. It does nothing if the timer fired while the clock
// was being paused or stopped.
func (c *Clock) expire() {
	c.mu.Lock()
	late := c.ended || c.pauses > 0 || time.Since(c.startedAt) < c.remaining
	c.ended = c.ended || !late
	c.mu.Unlock()
	if !late {
		c.expired()
	}
}
