package quota

import (
	"testing"
	"time"
)

func TestSpell(t *testing.T) {
	for d, want := range map[time.Duration]string{
		time.Second: "1 second", 90 * time.Second: "90 seconds", 2*time.Minute + time.Second: "3 minutes", 119 * time.Minute: "119 minutes",
		2 * time.Hour: "2 hours", 24*time.Hour + time.Second: "24 hours and 1 minute",
		24*time.Hour + 11*time.Minute + time.Second: "24 hours and 12 minutes",
	} {
		if got := spell(d); got != want {
			t.Errorf("%v is %q, want %q", d, got, want)
		}
	}
}
