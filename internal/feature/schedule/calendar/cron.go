package calendar

import (
	"math/bits"
	"strconv"
	"strings"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// cron is a parsed expression: sets of values as bits.
type cron struct {
	minutes, hours, days, months, weekdays uint64
	// anyDay is set if the days of the month or those of the week are not limited: a day must be
	// in both sets. Otherwise one of them is enough, as in every cron.
	anyDay bool
}

// field describes the values of a field.
type field struct {
	name        string
	least, most int
	names       []string // of the values, from least
}

var fields = [...]field{
	{name: "minute", most: 59},
	{name: "hour", most: 23},
	{name: "day of month", least: 1, most: 31},
	{name: "month", least: 1, most: 12, names: []string{"jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov",
		"dec"}},
	{name: "day of week", most: 7, names: []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}},
}

// named are the names of frequent expressions.
var named = map[string]string{
	"@hourly": "0 * * * *", "@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@weekly": "0 0 * * 0",
	"@monthly": "0 0 1 * *", "@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *",
}

const cronHint = `use five fields, minute hour day month weekday, such as "30 8 * * 1-5", or one of @hourly, @daily, @weekly, @monthly ` +
	`and @yearly`

// maxExpression limits the length of an expression.
const maxExpression = 200

func parse(text string) (*cron, error) {
	wrong := func(format string, args ...any) *fault.Error {
		return fault.New(fault.Invalid, "cron %.60q "+format, append([]any{text}, args...)...).WithHint("%s", cronHint)
	}
	full, isNamed := named[strings.ToLower(strings.TrimSpace(text))]
	switch {
	case strings.HasPrefix(text, "@every"):
		return nil, wrong("is not a cron expression").WithHint("use the key every, such as every: 10m")
	case strings.HasPrefix(text, "@") && !isNamed:
		return nil, wrong("is not a known name")
	case len(text) > maxExpression:
		return nil, wrong("has %d bytes; at most %d are allowed", len(text), maxExpression)
	case !isNamed:
		full = text
	}
	parts := strings.Fields(full)
	if len(parts) != len(fields) {
		return nil, wrong("has %d fields, not %d", len(parts), len(fields))
	}
	var sets [len(fields)]uint64
	for i, f := range fields {
		set, err := f.parse(parts[i])
		if err != "" {
			return nil, wrong("has %.40q as %s: %s", parts[i], f.name, err)
		}
		sets[i] = set
	}
	c := &cron{sets[0], sets[1], sets[2], sets[3], sets[4], strings.HasPrefix(parts[2], "*") || strings.HasPrefix(parts[4], "*")}
	if c.weekdays&(1<<7) != 0 { // 7 is Sunday too
		c.weekdays |= 1
	}
	if c.next(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)).IsZero() {
		return nil, wrong("never occurs: no such month has such a day")
	}
	return c, nil
}

// parse returns the set of values of a field; problem is "" if it is valid.
func (f field) parse(text string) (set uint64, problem string) {
	for part := range strings.SplitSeq(text, ",") {
		span, step, hasStep := strings.Cut(part, "/")
		least, most := f.least, f.most
		if f.names != nil && f.least == 0 {
			most = 6 // * is each day of the week once
		}
		if span != "*" {
			from, to, isRange := strings.Cut(span, "-")
			var ok bool
			if least, ok = f.value(from); !ok {
				return 0, f.allowed(from)
			}
			switch most = least; {
			case isRange:
				if most, ok = f.value(to); !ok {
					return 0, f.allowed(to)
				}
			case hasStep: // 5/15 is 5-59/15
				most = f.most
			}
			if most < least {
				return 0, "the range " + span + " is empty"
			}
		}
		by := 1
		if hasStep {
			n, err := strconv.Atoi(step)
			if err != nil || n < 1 || n > f.most {
				return 0, "the step " + strconv.Quote(step) + " must be from 1 to " + strconv.Itoa(f.most)
			}
			by = n
		}
		for v := least; v <= most; v += by {
			set |= 1 << v
		}
	}
	return set, ""
}

func (f field) value(text string) (int, bool) {
	for i, name := range f.names {
		if strings.EqualFold(text, name) {
			return f.least + i, true
		}
	}
	n, err := strconv.Atoi(text)
	return n, err == nil && n >= f.least && n <= f.most && !strings.HasPrefix(text, "+")
}

func (f field) allowed(text string) string {
	s := strconv.Quote(text) + " must be from " + strconv.Itoa(f.least) + " to " + strconv.Itoa(f.most)
	if f.names != nil {
		s += ", or a name such as " + f.names[1]
	}
	return s
}

// maxYears bounds the search for the next day. February 29 may be eight years away, and a weekday
// on it forty.
const maxYears = 41

// everyHour is the set of all hours.
const everyHour = 1<<24 - 1

// next returns the first instant after t, in the zone of t; the zero time if there is none.
func (c *cron) next(t time.Time) time.Time {
	if c.hours == everyHour {
		return c.nextElapsed(t)
	}
	year, month, day := t.Date()
	for i := range maxYears * 366 {
		// Noon exists on each day but for one that a zone has skipped as a whole.
		noon := time.Date(year, month, day+i, 12, 0, 0, 0, time.UTC)
		if !c.onDay(noon) {
			continue
		}
		for hours := c.hours; hours != 0; hours &= hours - 1 {
			for minutes := c.minutes; minutes != 0; minutes &= minutes - 1 {
				wall := time.Date(noon.Year(), noon.Month(), noon.Day(), bits.TrailingZeros64(hours), bits.TrailingZeros64(minutes), 0, 0,
					time.UTC)
				if at := resolve(wall, t.Location()); at.After(t) {
					return at
				}
			}
		}
	}
	return time.Time{}
}

// nextElapsed is next for an expression with every hour.
func (c *cron) nextElapsed(t time.Time) time.Time {
	end := t.AddDate(maxYears, 0, 0)
	for t = t.Truncate(time.Minute).Add(time.Minute); t.Before(end); {
		switch local := t.In(t.Location()); {
		case !c.onDay(local):
			y, m, d := local.Date()
			t = resolve(time.Date(y, m, d+1, 0, 0, 0, 0, time.UTC), t.Location())
		case c.minutes&(1<<local.Minute()) == 0:
			t = t.Add(time.Minute)
		default:
			return t
		}
	}
	return time.Time{}
}

func (c *cron) onDay(t time.Time) bool {
	if c.months&(1<<t.Month()) == 0 {
		return false
	}
	inMonth, inWeek := c.days&(1<<t.Day()) != 0, c.weekdays&(1<<t.Weekday()) != 0
	if c.anyDay {
		return inMonth && inWeek
	}
	return inMonth || inWeek
}

// resolve returns the instant of a local time, given as if it were UTC: the first one of two, or
// the end of the gap in which the local time does not exist.
func resolve(wall time.Time, zone *time.Location) time.Time {
	// Of two instants, time.Date returns either one, and in a gap an instant on either side.
	at := time.Date(wall.Year(), wall.Month(), wall.Day(), wall.Hour(), wall.Minute(), 0, 0, zone)
	start, end := at.ZoneBounds()
	if at.Day() != wall.Day() || at.Hour() != wall.Hour() || at.Minute() != wall.Minute() {
		// The gap is at the beginning or at the end of the zone's period that Date has chosen.
		if !start.IsZero() && (end.IsZero() || at.Sub(start) < end.Sub(at)) {
			return start
		}
		return end
	}
	if !start.IsZero() {
		_, before := start.Add(-time.Second).Zone()
		if first := wall.Add(-time.Duration(before) * time.Second); first.Before(start) {
			return first.In(zone)
		}
	}
	return at
}
