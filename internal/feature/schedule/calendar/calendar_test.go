package calendar_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/schedule/calendar"
)

func mustNew(t testing.TB, cfg calendar.Config) calendar.Calendar {
	t.Helper()
	c, err := calendar.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// next returns the local times of the first n instants after a local time.
func next(t *testing.T, expr, zone, after string, n int) (all []string) {
	t.Helper()
	loc, err := time.LoadLocation(zone)
	if err != nil {
		t.Fatal(err)
	}
	at, err := time.ParseInLocation("2006-01-02 15:04", after, loc)
	if err != nil {
		t.Fatal(err)
	}
	c := mustNew(t, calendar.Config{Cron: expr, TimeZone: zone})
	for range n {
		at = c.Next(time.Time{}, at)
		all = append(all, at.In(loc).Format("01-02 15:04-07"))
	}
	return all
}

func TestNext(t *testing.T) {
	const berlin = "Europe/Berlin"
	for _, c := range []struct{ name, expr, zone, after, want string }{
		{"weekdays", "30 8 * * 1-5", "UTC", "2026-11-27 08:30", "11-30 08:30+00, 12-01 08:30+00"},
		{"names", "0 9 * jan,Jul mon", "UTC", "2026-12-30 00:00", "01-04 09:00+00, 01-11 09:00+00"},
		{"Sunday as 7", "0 0 * * 7", "UTC", "2026-11-24 00:00", "11-29 00:00+00, 12-06 00:00+00"},
		{"days of month or week", "0 0 13 * 5", "UTC", "2026-11-24 00:00",
			"11-27 00:00+00, 12-04 00:00+00, 12-11 00:00+00, 12-13 00:00+00"},
		{"step", "*/20 9-10 * * *", "UTC", "2026-11-24 09:10", "11-24 09:20+00, 11-24 09:40+00, 11-24 10:00+00"},
		{"step from a value", "50/5 9 * * *", "UTC", "2026-11-24 09:10", "11-24 09:50+00, 11-24 09:55+00, 11-25 09:50+00"},
		{"leap day", "0 0 29 2 *", "UTC", "2096-03-01 00:00", "02-29 00:00+00"},
		{"named", "@monthly", "UTC", "2026-11-24 09:10", "12-01 00:00+00, 01-01 00:00+00"},

		{"a time in the gap", "30 2 * * *", berlin, "2026-03-28 12:00", "03-29 03:00+02, 03-30 02:30+02"},
		{"two times in the gap", "15,45 2 * * *", berlin, "2026-03-28 12:00", "03-29 03:00+02, 03-30 02:15+02, 03-30 02:45+02"},
		{"in and after the gap", "30 1,2,3 * * *", berlin, "2026-03-29 00:00", "03-29 01:30+01, 03-29 03:00+02, 03-29 03:30+02"},
		{"every second hour, gap", "0 */2 * * *", berlin, "2026-03-29 00:00", "03-29 03:00+02, 03-29 04:00+02"},
		{"every hour, gap", "30 * * * *", berlin, "2026-03-29 01:00", "03-29 01:30+01, 03-29 03:30+02"},
		{"a time that exists twice", "30 2 * * *", berlin, "2026-10-24 12:00", "10-25 02:30+02, 10-26 02:30+01"},
		{"two times that exist twice", "15,45 2 * * *", berlin, "2026-10-24 12:00", "10-25 02:15+02, 10-25 02:45+02, 10-26 02:15+01"},
		{"every hour, twice", "30 * * * *", berlin, "2026-10-25 01:00", "10-25 01:30+02, 10-25 02:30+02, 10-25 02:30+01, 10-25 03:30+01"},
		{"midnight in the gap", "30 0 * * *", "America/Sao_Paulo", "2018-11-03 12:00", "11-04 01:00-02, 11-05 00:30-02"},
		{"every minute over midnight in the gap", "* * * * *", "America/Sao_Paulo", "2018-11-03 23:58", "11-03 23:59-03, 11-04 01:00-02"},
		{"gap of 30 minutes", "15 2 * * *", "Australia/Lord_Howe", "2026-10-03 12:00", "10-04 02:30+11, 10-05 02:15+11"},
		{"30 minutes twice", "45 1 * * *", "Australia/Lord_Howe", "2026-04-04 12:00", "04-05 01:45+11, 04-06 01:45+10"},
		{"New York, twice", "30 1 * * *", "America/New_York", "2026-10-31 12:00", "11-01 01:30-04, 11-02 01:30-05"},
		{"a day that does not exist", "0 12 30 12 *", "Pacific/Apia", "2011-12-29 00:00", "12-31 00:00+14, 12-30 12:00+14"},
	} {
		t.Run(c.name, func(t *testing.T) {
			want := strings.Split(c.want, ", ")
			if diff := cmp.Diff(want, next(t, c.expr, c.zone, c.after, len(want))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Between two changes of the clock, and after them, Next agrees with a search minute by minute.
func TestNextAgreesWithASearch(t *testing.T) {
	zone, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	matches := map[string]func(time.Time) bool{
		"17 3,14 * * *":    func(t time.Time) bool { return t.Minute() == 17 && (t.Hour() == 3 || t.Hour() == 14) },
		"*/13 5-7 1-9 * *": func(t time.Time) bool { return t.Minute()%13 == 0 && t.Hour() >= 5 && t.Hour() <= 7 && t.Day() <= 9 },
		"5 4 * * sat,sun": func(t time.Time) bool {
			return t.Minute() == 5 && t.Hour() == 4 && (t.Weekday() == time.Saturday || t.Weekday() == time.Sunday)
		},
		"7 * * 3,10 *": func(t time.Time) bool {
			return t.Minute() == 7 && (t.Month() == time.March || t.Month() == time.October)
		},
	}
	for expr, match := range matches {
		c := mustNew(t, calendar.Config{Cron: expr, TimeZone: "Europe/Berlin"})
		at := time.Date(2026, 2, 20, 11, 11, 30, 0, zone)
		end := time.Date(2026, 11, 10, 0, 0, 0, 0, zone)
		due := c.Next(time.Time{}, at)
		for m := at.Truncate(time.Minute).Add(time.Minute); m.Before(end); m = m.Add(time.Minute) {
			if !match(m) {
				continue
			}
			if !due.Equal(m) {
				t.Fatalf("%s: got %s, want %s", expr, due, m)
			}
			if last := c.Last(time.Time{}, at, m.Add(30*time.Second)); !last.Equal(m) {
				t.Fatalf("%s: last before %s is %s", expr, m, last)
			}
			due = c.Next(time.Time{}, m)
		}
	}
}

func TestLast(t *testing.T) {
	at := func(s string) time.Time {
		v, err := time.Parse("2006-01-02 15:04", s)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	for _, c := range []struct {
		cfg                calendar.Config
		after, until, want string
	}{
		{calendar.Config{Cron: "0 9 * * *", TimeZone: "UTC"}, "2026-11-24 09:00", "2026-11-25 08:59", ""},
		{calendar.Config{Cron: "0 9 * * *", TimeZone: "UTC"}, "2026-11-24 09:00", "2026-11-25 09:00", "2026-11-25 09:00"},
		{calendar.Config{Cron: "0 9 * * *", TimeZone: "UTC"}, "2026-11-24 09:00", "2027-02-25 08:00", "2027-02-24 09:00"},
		{calendar.Config{Cron: "0 0 29 2 *", TimeZone: "UTC"}, "2020-01-01 00:00", "2027-02-25 08:00", "2024-02-29 00:00"},
		{calendar.Config{Cron: "* * * * *", TimeZone: "UTC"}, "2001-01-01 00:00", "2026-11-24 10:00", "2026-11-24 10:00"},
		{calendar.Config{Every: 90 * time.Minute}, "2026-11-24 00:00", "2026-11-24 04:00", "2026-11-24 03:00"},
		{calendar.Config{Every: 90 * time.Minute}, "2026-11-24 03:00", "2026-11-24 04:29", ""},
		{calendar.Config{Every: 90 * time.Minute}, "2026-11-26 00:00", "2026-11-24 04:29", ""}, // the clock was put back
	} {
		got := ""
		if last := mustNew(t, c.cfg).Last(at("2026-11-24 00:00"), at(c.after), at(c.until)); !last.IsZero() {
			got = last.UTC().Format("2006-01-02 15:04")
		}
		if got != c.want {
			t.Errorf("%+v after %s until %s: got %q, want %q", c.cfg, c.after, c.until, got, c.want)
		}
	}
}

func TestNextOfIntervals(t *testing.T) {
	anchor := time.Date(2026, 3, 29, 0, 30, 0, 0, time.UTC)
	c := mustNew(t, calendar.Config{Every: time.Hour})
	for after, want := range map[time.Duration]time.Duration{-time.Hour: time.Hour, 0: time.Hour, 59 * time.Minute: time.Hour,
		time.Hour: 2 * time.Hour, 90 * time.Minute: 2 * time.Hour} {
		if got := c.Next(anchor, anchor.Add(after)); !got.Equal(anchor.Add(want)) {
			t.Errorf("after %s: got %s, want %s", after, got.Sub(anchor), want)
		}
	}
}

func TestNewRejects(t *testing.T) {
	for _, c := range []struct {
		cfg  calendar.Config
		want string
	}{
		{calendar.Config{}, "neither cron nor every"},
		{calendar.Config{Cron: "0 9 * * *", Every: time.Hour}, "remove one"},
		{calendar.Config{Every: time.Millisecond}, "at least 1s"},
		{calendar.Config{Every: time.Hour, TimeZone: "UTC"}, "remove time_zone"},
		{calendar.Config{Cron: "0 9 * *"}, "has 4 fields, not 5"},
		{calendar.Config{Cron: "0 0 9 * * *"}, "has 6 fields"},
		{calendar.Config{Cron: "60 9 * * *"}, `"60" as minute: "60" must be from 0 to 59`},
		{calendar.Config{Cron: "0 9 0 * *"}, "day of month"},
		{calendar.Config{Cron: "0 9 * * mo"}, `"mo" must be from 0 to 7, or a name such as mon`},
		{calendar.Config{Cron: "0 17-9 * * *"}, "the range 17-9 is empty"},
		{calendar.Config{Cron: "*/0 * * * *"}, `the step "0"`},
		{calendar.Config{Cron: "+5 * * * *"}, "must be from"},
		{calendar.Config{Cron: "0 0 30 2 *"}, "never occurs"},
		{calendar.Config{Cron: "@noon"}, "not a known name"},
		{calendar.Config{Cron: "@every 5m"}, "use the key every"},
		{calendar.Config{Cron: strings.Repeat("1,", 200) + "1 * * * *"}, "at most 200"},
		{calendar.Config{Cron: "0 9 * * *", TimeZone: "Europe/Atlantis"}, `time_zone "Europe/Atlantis" does not exist`},
		{calendar.Config{Cron: "0 9 * * *", TimeZone: "Local"}, "does not exist"},
		{calendar.Config{Cron: "0 9 * * *", TimeZone: "../../etc/passwd"}, "does not exist"},
	} {
		_, err := calendar.New(c.cfg)
		if text := fmt.Sprint(err, "; ", fault.Hint(err)); err == nil || fault.KindOf(err) != fault.Invalid || !strings.Contains(text,
			c.want) {
			t.Errorf("%+v: got %s, want %s", c.cfg, text, c.want)
		}
	}
}

// FuzzNext checks that each expression is refused or has a next instant that is later.
func FuzzNext(f *testing.F) {
	for _, s := range []string{"0 9 * * 1-5", "*/5 0 29 2 *", "59 23 31 12 7", "@daily", "1-5/2,9 * * jan-mar *"} {
		f.Add(s, int64(1774749600), "Europe/Berlin")
	}
	f.Fuzz(func(t *testing.T, expr string, after int64, zone string) {
		c, err := calendar.New(calendar.Config{Cron: expr, TimeZone: zone})
		at := time.Unix(after%(1<<33), 0)
		if err != nil || zone == "" {
			return
		}
		next := c.Next(time.Time{}, at)
		if !next.After(at) {
			t.Errorf("%q in %s: %s is not after %s", expr, zone, next, at)
		}
	})
}
