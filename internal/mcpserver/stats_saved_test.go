package mcpserver

import "testing"

func TestSavedShareIsNeverNegative(t *testing.T) {
	for _, c := range []struct {
		direct, spent int64
		want          float64
	}{{1000, 250, 0.75}, {0, 0, 0}, {0, 900, 0}, {30, 923, 0}, {900, 900, 0}} {
		if got := savedShare(c.direct, c.spent); got != c.want {
			t.Errorf("%d instead of %d: %g, want %g", c.spent, c.direct, got, c.want)
		}
	}
}
