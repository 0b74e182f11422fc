package schedule

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/config"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

func loads(t *testing.T, text string) (*config.Config, error) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "sandpiper.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	environ := []string{"HOME=" + dir, "USERPROFILE=" + dir, "APPDATA=" + dir, "LOCALAPPDATA=" + dir}
	return config.Load(config.Sources{Dir: dir, File: "sandpiper.yaml", Environ: environ, Features: []config.Section{Feature().Config}})
}

func TestSettings(t *testing.T) {
	c, err := loads(t, `schedules:
  - {name: daily, cron: "30 8 * * mon-fri", time_zone: Europe/Berlin, run: {skill: report}, inputs: {to: [a, b], limit: 3}, on_overlap: queue, on_missed: skip}
  - name: often
    every: 10m
    run: {skill: sync}
    tenant: acme
  - {name: weekly, every: 7d, run: {workflow: sync}}
`)
	if err != nil || len(c.Warnings) > 0 {
		t.Fatal(err, c.Warnings)
	}
	acme, _ := tenant.Parse("acme")
	want := []Spec{
		{Name: "daily", Cron: "30 8 * * mon-fri", TimeZone: "Europe/Berlin", Skill: "report",
			Inputs: json.RawMessage(`{"limit":3,"to":["a","b"]}`), OnOverlap: QueueOverlap, OnMissed: SkipMissed},
		{Name: "weekly", Every: 7 * 24 * time.Hour, Workflow: "sync"},
	}
	if diff := cmp.Diff(want, configured(c, tenant.Local, tenant.Local)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]Spec{{Name: "often", Every: 10 * time.Minute, Skill: "sync"}}, configured(c, acme, tenant.Local)); diff != "" {
		t.Error(diff)
	}
	if !strings.HasSuffix(config.Of[Settings](c).Schedules[1].At, "sandpiper.yaml line 3") {
		t.Errorf("the second one is at %q", config.Of[Settings](c).Schedules[1].At)
	}
}

func TestWrongSettings(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{`{name: a, cron: "61 * * * *", run: {skill: s}}`, `sandpiper.yaml line 2: schedules: cron "61 * * * *" has "61" as minute: "61" ` +
			`must be from 0 to 59; use five fields`},
		{`{name: a, cron: "0 9 * * *", time_zone: Mars/Base, run: {skill: s}}`,
			`line 2: schedules: time_zone "Mars/Base" does not exist; use a name of the IANA database`},
		{`{name: a, cron: "0 9 * * *", timezone: UTC, run: {skill: s}}`,
			`line 2: entry 1 of schedules ("a") has no key "timezone"; did you mean "time_zone"?`},
		{`{name: a, every: 0s, run: {skill: s}}`, `line 2: entry 1 of schedules ("a") every is "0s"; it must be a time from 1s to 366d`},
		{`{name: a, every: 1h, run: {skil: s}}`, `run has no key "skil"; did you mean "skill"?`},
		{`{name: a, every: 1h, run: {skill: s, workflow: s}}`,
			`line 2: schedules: schedule "a" must run either a skill or a workflow; set run to`},
		{`{name: a, every: 1h}`, `line 2: schedules: schedule "a" must run either a skill or a workflow; set run to`},
		{`{every: 1h, run: {skill: s}}`, `"" cannot be the name of a schedule`},
		{`{name: a, every: 1h, run: {skill: s}, inputs: [1]}`, `inputs must be a mapping`},
		{`{name: a, every: 1h, run: {skill: s}, on_overlap: wait}`, `on_overlap is "wait"; it must be skip or queue`},
		{`{name: a, every: 1h, run: {skill: s}, on_missed: all}`, `on_missed is "all"; it must be run_once or skip`},
		{`{name: a, every: 1h, run: {skill: s}, tenant: "../b"}`, `tenant is "../b": tenant id "../b" contains '/'`},
		{"{name: a, every: 1h, run: {skill: s}}\n  - {name: a, every: 2h, run: {skill: s}}",
			`line 3: schedules: the name "a" is already used, at`},
	} {
		_, err := loads(t, "schedules:\n  - "+c.text+"\n")
		if text := fmt.Sprintf("%v; %s", err, fault.Hint(err)); !strings.Contains(text, c.want) {
			t.Errorf("%s:\n got %s\nwant %s", c.text, text, c.want)
		}
	}
}
