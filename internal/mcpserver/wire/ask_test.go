package wire

import (
	"testing"
	"time"
)

// The times are those of Claude Code (16 ms), Codex (1 ms) and a person.
func TestDeclineFasterThanReadingIsNoAnswer(t *testing.T) {
	for _, c := range []struct {
		action string
		shown  time.Duration
		want   string
	}{
		{"cancel", 16 * time.Millisecond, "cancel"},
		{"cancel", time.Minute, "cancel"},
		{"decline", time.Millisecond, "cancel"},
		{"decline", 299 * time.Millisecond, "cancel"},
		{"decline", 300 * time.Millisecond, "decline"},
		{"decline", time.Hour, "decline"},
		{"accept", 0, "accept"},
	} {
		if got := (Reply{Action: c.action}).After(c.shown).Action; got != c.want {
			t.Errorf("%s after %s is %s, want %s", c.action, c.shown, got, c.want)
		}
	}
}
