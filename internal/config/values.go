package config

import (
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/clock"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// wrong returns the error of an invalid value.
func wrong(s setting, allowed string, args ...any) error {
	e := fault.New(fault.Invalid, "must be "+allowed, args...)
	return fault.New(fault.Invalid, "%s: %s is %q; it %s", s.from, s.key, s.text, e.Message)
}

func oneOf(to *string, s setting, allowed ...string) error {
	if !slices.Contains(allowed, s.text) {
		text := strings.Join(allowed[:len(allowed)-1], ", ") + " or " + allowed[len(allowed)-1]
		if near := fault.Nearest(s.text, allowed, 1); near != nil {
			text += "; did you mean " + near[0] + "?"
		}
		return wrong(s, "%s", text)
	}
	*to = s.text
	return nil
}

// duration reads "30s", or a number of seconds.
func duration(to *time.Duration, s setting) error {
	v, err := clock.ParseDuration(s.text)
	if n, bad := strconv.ParseFloat(s.text, 64); bad == nil && n < 1e6 {
		v, err = time.Duration(n*float64(time.Second)), nil
	}
	if err != nil || v <= 0 || v > 24*time.Hour {
		return wrong(s, "a time of at most 24h, such as 30s or 5m")
	}
	*to = v
	return nil
}

// recentCode reads how long code is kept; "none" is -1.
func recentCode(to *time.Duration, s setting) error {
	if s.text == "none" {
		*to = -1
		return nil
	}
	if duration(to, s) != nil {
		return wrong(s, "none, or a time of at most 24h, such as 1h")
	}
	return nil
}

func whole(to *int, s setting, least, most int) error {
	n, err := strconv.Atoi(s.text)
	if err != nil || n < least || n > most {
		return wrong(s, "a whole number from %d to %d", least, most)
	}
	*to = n
	return nil
}

// queue reads the number of executions that may wait; 0 means none.
func queue(d *draft, s setting) error {
	if err := whole(&d.Admit.Queued, s, 0, 1<<16); err != nil {
		return err
	}
	if d.Admit.Queued == 0 {
		d.Admit.Queued = -1
	}
	return nil
}

func level(to *slog.Level, s setting) error {
	names := map[string]slog.Level{
		"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "warning": slog.LevelWarn,
		"error": slog.LevelError, "critical": slog.LevelError,
	}
	l, ok := names[strings.ToLower(s.text)]
	if !ok {
		return wrong(s, "debug, info, warn or error")
	}
	*to = l
	return nil
}

// directory reads a path, relative to the directory of its source.
func directory(to *string, d *draft, s setting) error {
	if s.text == "" || strings.ContainsRune(s.text, 0) {
		return wrong(s, "a path")
	}
	*to = absolute(s.text, s.dir, map[string]string{"HOME": d.dirs.home})
	return nil
}
