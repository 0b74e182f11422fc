package clock

import (
	"slices"
	"testing"
	"time"
)

func TestLeftIsBoundedByTheInterval(t *testing.T) {
	now := time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)
	const h, sec = time.Hour, time.Second
	for _, c := range []struct {
		rest  time.Duration
		steps []time.Duration // the last one first
		want  time.Duration
	}{
		{3 * sec, nil, 3 * sec},
		{-h, nil, -h},
		{5 * sec, []time.Duration{h}, 5 * sec},      // it began after the clock was put back
		{h + 3*sec, []time.Duration{h}, 3 * sec},    // two have elapsed
		{h - 10*sec, []time.Duration{h}, 0},         // all have
		{h + 3*sec, nil, 5 * sec},                   // the process started afterwards
		{h + 3*sec, []time.Duration{h, h}, 3 * sec}, // it began between two steps
		{2*h + 3*sec, []time.Duration{h, h}, 3 * sec},
		{h + 3*sec, []time.Duration{h, 2 * h, -h}, 3 * sec},
		{h + 3*sec, []time.Duration{-h, 2 * h}, 3 * sec}, // put forward again
		{24*h + 3*sec, []time.Duration{2 * h}, 5 * sec},
	} {
		if got := left(now.Add(c.rest), now, 5*time.Second, c.steps); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
}

func TestStepsAreRemembered(t *testing.T) {
	var s steps
	for _, total := range []time.Duration{0, 900 * time.Millisecond, time.Hour, time.Hour + 300*time.Millisecond, 2 * time.Hour,
		time.Hour} {
		s.observe(total)
	}
	got := s.observe(time.Hour)
	if want := []time.Duration{-time.Hour, time.Hour, time.Hour}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	for i := range 1000 {
		got = s.observe(time.Duration(i) * time.Minute)
	}
	if len(got) != maxSteps || got[0] != time.Minute {
		t.Errorf("%d steps, the last of %s", len(got), got[0])
	}
}

func TestJump(t *testing.T) {
	then := time.Now()
	if by := Jump(then, then.Add(time.Hour)); by != 0 {
		t.Error(by)
	}
	// A reading without the monotonic clock cannot be compared.
	if by := Jump(then.Round(0), then.Round(0).Add(-time.Hour)); by != 0 {
		t.Error(by)
	}
	if by := PutBack(); by != 0 {
		t.Errorf("the clock was put back by %s", by)
	}
}
