package config

import (
	"log/slog"
	"strings"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/config/section"
)

// wrong returns the error of an invalid value.
func wrong(s setting, allowed string, args ...any) error {
	return s.placed(section.Must(s.text, allowed, args...))
}

func oneOf(to *string, s setting, allowed ...string) error {
	if err := section.OneOf(s.text, allowed...); err != nil {
		return s.placed(err)
	}
	*to = s.text
	return nil
}

// recentCode reads how long code is kept; "none" is -1.
func recentCode(to *time.Duration, s setting) error {
	if s.text == "none" {
		*to = -1
		return nil
	}
	keep, err := section.Duration(s.text)
	if err != nil {
		return wrong(s, "none, or a time of at most 24h, such as 1h")
	}
	*to = keep
	return nil
}

func whole(to *int, s setting, least, most int64) error {
	n, err := section.Whole(s.text, least, most)
	if err == nil {
		*to = int(n)
	}
	return s.placed(err)
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
	path, err := section.Path(s.text, s.source(d.dirs.home))
	if err == nil {
		*to = path
	}
	return s.placed(err)
}
