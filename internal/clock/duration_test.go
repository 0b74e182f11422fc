package clock_test

import (
	"testing"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/clock"
)

func TestParseDuration(t *testing.T) {
	const day = 24 * time.Hour
	for text, want := range map[string]time.Duration{
		"1d": day, "2w": 14 * day, "1w2d3h": 9*day + 3*time.Hour, "1.5d": 36 * time.Hour, "0d": 0, "90s": 90 * time.Second,
		"1h30m": 90 * time.Minute, "-5m": -5 * time.Minute, "0": 0, "15000w": 15000 * 7 * day, "1d1ns": day + 1,
	} {
		if got, err := clock.ParseDuration(text); err != nil || got != want {
			t.Errorf("%q: %s, %v, want %s", text, got, err, want)
		}
	}
	for _, text := range []string{"", "d", "1", "1dd", "1 d", "-1d", "1d-5m", "1d+5m", "1d5", "1.2.3d", ".d", "1D", "99999999w",
		"15000w2000000h", "NaNd", "1ed", "1y"} {
		if got, err := clock.ParseDuration(text); err == nil {
			t.Errorf("%q: %s", text, got)
		}
	}
}
