// Package clock has a time limit that stands still while a person is asked:
// nobody's time runs out over a question that somebody else thinks about.
//
// A Clock is safe for concurrent use. It keeps no wall time and reports nothing.
package clock

import (
	"sync"
	"time"
)

// Clock is a time limit that can stand still. It is made stopped, so that
// waiting for a place costs no time, and it stands still while a question is
// open. Pauses count: it runs on when all of them have been resumed.
type Clock struct {
	expired func() // called once, in its own goroutine

	mu      sync.Mutex
	left    time.Duration
	pauses  int
	running time.Time // since when; zero while it stands still
	timer   *time.Timer
	ended   bool
}

// New returns a stopped clock that calls expired after it ran for limit.
func New(limit time.Duration, expired func()) *Clock {
	return &Clock{left: limit, pauses: 1, expired: expired}
}

// Resume undoes one pause; the first one starts the clock.
func (c *Clock) Resume() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended || c.pauses == 0 {
		return
	}
	if c.pauses--; c.pauses > 0 {
		return
	}
	c.running = time.Now()
	c.timer = time.AfterFunc(c.left, c.expire)
}

// Pause lets the clock stand still until as many resumes have come.
func (c *Clock) Pause() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pauses++; c.pauses > 1 || c.ended {
		return
	}
	c.timer.Stop()
	c.left -= time.Since(c.running)
	c.running = time.Time{}
}

// Remaining is how much of the limit is left.
func (c *Clock) Remaining() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.running.IsZero() {
		return c.left
	}
	return c.left - time.Since(c.running)
}

// Stop ends the clock without expiring.
func (c *Clock) Stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	if c.timer != nil {
		c.timer.Stop()
	}
}

// expire is the timer's end. A timer that fired while the clock was being
// paused or stopped has no say.
func (c *Clock) expire() {
	c.mu.Lock()
	late := c.ended || c.pauses > 0 || time.Since(c.running) < c.left
	c.ended = c.ended || !late
	c.mu.Unlock()
	if !late {
		c.expired()
	}
}
