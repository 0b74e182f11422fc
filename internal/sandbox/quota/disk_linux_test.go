package quota

import (
	"testing"
	"time"
)

func TestShortExecutionsAreNotMeasuredEachTime(t *testing.T) {
	for _, c := range []struct {
		measured, began time.Duration // ago
		due             bool
	}{
		{2 * time.Second, 0, false},
		{2 * time.Second, 2 * diskGrace, true},
		{diskPeriod / 2, time.Minute, false},
		{2 * diskStale, 0, true},
	} {
		now := time.Now()
		d := &disk{last: diskUse{at: now.Add(-c.measured)}}
		if got := d.due(&diskWatch{began: now.Add(-c.began)}); got != c.due {
			t.Errorf("measured %v ago, code runs for %v: due is %v", c.measured, c.began, got)
		}
	}
	if !new(disk).due(&diskWatch{began: time.Now()}) {
		t.Error("the first measurement is not due at once")
	}
}
