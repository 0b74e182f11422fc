package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

// probe are the settings of a feature for tests.
type probe struct {
	Keep  time.Duration `key:"probe.keep,tenant" default:"1h" project:"lower"`
	Where string        `key:"probe.where,restart" form:"path"`
	Names []string      `key:"probe.names" form:"one or more"`
}

func (p *probe) Check() error {
	if p.Where == "/nowhere" {
		return fault.New(fault.Invalid, "probe.where does not exist")
	}
	return nil
}

func loadProbe(t *testing.T, text string) (*Config, error) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "sandpiper.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	environ := []string{"HOME=" + dir, "USERPROFILE=" + dir, "APPDATA=" + dir, "LOCALAPPDATA=" + dir}
	return Load(Sources{Dir: dir, File: "sandpiper.yaml", Environ: environ,
		Features: []Section{{Settings: func() any { return new(probe) }}}})
}

// The keys of a feature are read, merged, described and reloaded as those of the core.
func TestKeysOfFeatures(t *testing.T) {
	c, err := loadProbe(t, "probe: {keep: 5m, where: /a, names: b}\ntiers: {free: {probe: {keep: 2m}}}\n")
	if err != nil {
		t.Fatal(err)
	}
	id, err := tenant.Parse("alice")
	if err != nil {
		t.Fatal(err)
	}
	if p := Of[probe](c); p.Keep != 5*time.Minute || p.Where != "/a" || len(p.Names) != 1 {
		t.Errorf("%+v", p)
	}
	if p := Of[probe](c.For(id, "free")); p.Keep != 2*time.Minute || p.Where != "/a" {
		t.Errorf("of a tier: %+v", p)
	}
	if p := Of[probe](&Config{}); p.Keep != time.Hour {
		t.Errorf("of a configuration that was not loaded: %+v", p)
	}
	next, err := loadProbe(t, "probe: {where: /b}\n")
	if err != nil {
		t.Fatal(err)
	}
	next.DataDir, next.CacheDir = c.DataDir, c.CacheDir
	if differ := next.KeepFixed(c, false); len(differ) != 1 || differ[0] != "probe.where" || Of[probe](next).
		Where != "/a" || Of[probe](next).Keep != time.Hour {
		t.Errorf("a reload keeps %q: %+v", differ, Of[probe](next))
	}
	if differ := next.KeepFixed(&Config{}, false); strings.Contains(strings.Join(differ, " "), "probe") {
		t.Errorf("a configuration that was not loaded has %q", differ)
	}
	schema, err := JSONSchema([]Section{{Settings: func() any { return new(probe) }}})
	if err != nil || !strings.Contains(string(schema), `"probe"`) {
		t.Errorf("%s, %v", schema, err)
	}
	for text, want := range map[string]string{
		"probe: {keep: soon}\n":                 "sandpiper.yaml line 1: probe.keep is \"soon\"; it must be a time",
		"probe: {kep: 5m}\n":                    `there is no key "probe.kep"; did you mean "probe.keep"?`,
		"probe: {where: /nowhere}\n":            "probe.where does not exist",
		"tiers: {free: {probe: {where: /b}}}\n": "probe.where applies to all tenants",
		"probe: {names: []}\n":                  "probe.names must be a text or a list of texts",
	} {
		if _, err := loadProbe(t, text); !strings.Contains(fault.Message(err), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
	if _, err := loads(t, "probe: {keep: 5m}\n"); !strings.Contains(fault.Message(err), `there is no key "probe"`) {
		t.Errorf("without the feature: %v", err)
	}
}
