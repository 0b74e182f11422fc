// Package calendar computes when something recurs: by a cron expression in a time zone, or after
// equal intervals.
//
// A cron expression states local times. A local time that does not exist, because clocks are put
// forward, is replaced by the next one that does; one that exists twice, because clocks are put
// back, counts once, the first time. An expression with every hour instead follows elapsed time,
// as there is no hour to skip or repeat. Computations have no state, and need no clock: an instant
// is an argument. The package knows neither what recurs nor whether it has happened.
package calendar

import (
	"strings"
	"time"
	_ "time/tzdata" // the host may have no time zones

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// Config describes a Calendar. Exactly one of Cron and Every is set.
type Config struct {
	Cron  string        // five fields, or a name such as @daily
	Every time.Duration // at least MinEvery
	// TimeZone is the zone of Cron, an IANA name; "" means that of the host.
	TimeZone string
}

// The limits of Config.Every.
const (
	MinEvery = time.Second
	MaxEvery = 366 * 24 * time.Hour
)

// Calendar computes instants. Its zero value is invalid.
type Calendar struct {
	cron  *cron
	every time.Duration
	zone  *time.Location
}

// New checks cfg. An error states the value and the remedy.
func New(cfg Config) (Calendar, error) {
	switch {
	case cfg.Cron == "" && cfg.Every == 0:
		return Calendar{}, fault.New(fault.Invalid, "neither cron nor every is given").
			WithHint(`set one of them, such as cron: "0 9 * * 1-5" or every: 10m`)
	case cfg.Cron != "" && cfg.Every != 0:
		return Calendar{}, fault.New(fault.Invalid, "both cron %.60q and every %s are given", cfg.Cron, cfg.Every).
			WithHint("remove one of them")
	case cfg.Every != 0 && (cfg.Every < MinEvery || cfg.Every > MaxEvery):
		return Calendar{}, fault.New(fault.Invalid, "every is %s; it must be at least %s and at most %d days", cfg.Every, MinEvery,
			int(MaxEvery.Hours()/24))
	case cfg.Every != 0 && cfg.TimeZone != "":
		return Calendar{}, fault.New(fault.Invalid, "time_zone %.60q is given with every, which does not depend on it", cfg.TimeZone).
			WithHint("remove time_zone, or use cron")
	}
	zone, err := location(cfg.TimeZone)
	if err != nil || cfg.Every != 0 {
		return Calendar{every: cfg.Every, zone: zone}, err
	}
	c, err := parse(cfg.Cron)
	return Calendar{cron: c, zone: zone}, err
}

func location(name string) (*time.Location, error) {
	if name == "" {
		return time.Local, nil
	}
	zone, err := time.LoadLocation(name)
	if err != nil || name == "Local" || strings.HasPrefix(name, "posix") || strings.HasPrefix(name, "right") {
		return nil, fault.New(fault.Invalid, "time_zone %.60q does not exist", name).
			WithHint("use a name of the IANA database, such as Europe/Berlin, America/New_York or UTC")
	}
	return zone, nil
}

// Next returns the first instant after an instant. anchor is the start of the intervals of
// Config.Every. The zero time means that there is none, which New excludes for the present time.
func (c Calendar) Next(anchor, after time.Time) time.Time {
	if c.cron == nil {
		if after.Before(anchor) {
			return anchor.Add(c.every)
		}
		return anchor.Add((after.Sub(anchor)/c.every + 1) * c.every)
	}
	return c.cron.next(after.In(c.zone))
}

// Last returns the last instant after an instant and not after another one; the zero time if
// there is none.
func (c Calendar) Last(anchor, after, until time.Time) (last time.Time) {
	if c.cron == nil {
		if n := until.Sub(anchor) / c.every; n > 0 {
			last = anchor.Add(n * c.every)
		}
		if !last.After(after) {
			return time.Time{}
		}
		return last
	}
	// The distance to the last instant is unknown. A wider window is searched only if a
	// narrower one has none, so that the number of instants in it is small.
	for window := time.Hour; ; window *= 24 {
		from := until.Add(-window)
		if narrowest := from.Before(after); narrowest || window > 40*MaxEvery {
			from = after
		}
		for t := c.Next(anchor, from); !t.IsZero() && !t.After(until); t = c.Next(anchor, t) {
			last = t
		}
		if !last.IsZero() || from.Equal(after) {
			return last
		}
	}
}
