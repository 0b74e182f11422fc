package clock

import (
	"slices"
	"sync"
	"time"
)

// began is a reading of both clocks near the start of the process.
var began = time.Now()

// PutBack returns by how much the wall clock was put back since the process started, compared with
// the time that has elapsed; 0 if it was not.
func PutBack() time.Duration {
	now := time.Now()
	seen.observe(behind(began, now))
	return Jump(began, now)
}

// behind returns by how much the wall clock lags behind the time that has elapsed between two calls of
// time.Now.
func behind(then, now time.Time) time.Duration {
	return now.Sub(then) - now.Round(0).Sub(then.Round(0))
}

// seen are the steps of this process.
var seen steps

// steps remembers by how much the wall clock was put back at a time, or forward if negative. Steps
// between two calls of observe count as one.
type steps struct {
	mu    sync.Mutex
	total time.Duration
	all   []time.Duration
}

// maxSteps is how many steps are remembered.
const maxSteps = 64

// observe returns the steps until now, the last one first. total is by how much the clock was put back in all.
func (s *steps) observe(total time.Duration) []time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if by := total - s.total; by.Abs() >= time.Second {
		s.total, s.all = total, slices.Insert(s.all, 0, by)
		s.all = s.all[:min(len(s.all), maxSteps)]
	}
	return slices.Clone(s.all)
}

// Jump returns by how much the wall clock was put back between two calls of time.Now. Differences
// below a second are those of a clock that is adjusted smoothly. While the machine is suspended only
// the wall clock advances.
func Jump(then, now time.Time) time.Duration {
	if by := behind(then, now); by >= time.Second {
		return by
	}
	return 0
}

// Left returns how long an interval lasts that was to end at a time of the wall clock: not longer
// than it is in all, although the clock was put back, and if that was since the process started, until
// it has elapsed.
func Left(end, now time.Time, interval time.Duration) time.Duration {
	return left(end, now, interval, seen.observe(behind(began, time.Now())))
}

// left undoes the last steps, and not more than are needed: the others were before the interval began.
func left(end, now time.Time, interval time.Duration, last []time.Duration) time.Duration {
	rest := end.Round(0).Sub(now.Round(0))
	if rest <= interval {
		return rest
	}
	for _, by := range last {
		if rest -= by; rest <= interval {
			return max(0, rest)
		}
	}
	return interval
}
