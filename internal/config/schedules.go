package config

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"

	"github.com/sandpiper-mcp/sandpiper/internal/calendar"
	"github.com/sandpiper-mcp/sandpiper/internal/clock"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home/schedule"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

// Schedule is a schedule of the configuration.
type Schedule struct {
	schedule.Spec
	Tenant tenant.ID // zero means the tenant of clients without a token
	At     string    // file and line
}

var scheduleKeys = parsers[Schedule]{
	"name":       func(s *Schedule, n ast.Node) error { return scalar(&s.Name, n) },
	"cron":       func(s *Schedule, n ast.Node) error { return scalar(&s.Cron, n) },
	"every":      func(s *Schedule, n ast.Node) error { return interval(&s.Every, n) },
	"time_zone":  func(s *Schedule, n ast.Node) error { return scalar(&s.TimeZone, n) },
	"run":        func(s *Schedule, n ast.Node) error { return targetKeys.fill(&s.Spec, n) },
	"inputs":     func(s *Schedule, n ast.Node) error { return object(&s.Inputs, n) },
	"tenant":     func(s *Schedule, n ast.Node) error { return owner(&s.Tenant, n) },
	"on_overlap": func(s *Schedule, n ast.Node) error { return scalar((*string)(&s.OnOverlap), n) },
	"on_missed":  func(s *Schedule, n ast.Node) error { return scalar((*string)(&s.OnMissed), n) },
}

// targetKeys are the keys of run.
var targetKeys = parsers[schedule.Spec]{
	"skill":    func(s *schedule.Spec, n ast.Node) error { return scalar(&s.Skill, n) },
	"workflow": func(s *schedule.Spec, n ast.Node) error { return scalar(&s.Workflow, n) },
}

// schedules reads the list of schedules. Each error has the line of its entry.
func (d *draft) schedules(s setting) error {
	all := []Schedule{}
	place := func(one *Schedule, at string) { one.At = at }
	if err := ordered(&all, scheduleKeys, s, place); err != nil {
		return err
	}
	for i, one := range all {
		if _, err := one.Check(); err != nil {
			return fault.New(fault.Invalid, "%s: schedules: %s", one.At, fault.Message(err)).WithHint("%s", fault.Hint(err))
		}
		same := func(o Schedule) bool { return o.Name == one.Name && o.Tenant == one.Tenant }
		if j := slices.IndexFunc(all[:i], same); j >= 0 {
			return fault.New(fault.Invalid, "%s: schedules: the name %q is already used, at %s", one.At, one.Name, all[j].At)
		}
	}
	d.Schedules = all
	return nil
}

// SchedulesOf returns the schedules of a tenant. without is the tenant of clients without a token.
func (c *Config) SchedulesOf(id, without tenant.ID) (specs []schedule.Spec) {
	for _, s := range c.Schedules {
		if s.Tenant == id || s.Tenant.IsZero() && id == without {
			specs = append(specs, s.Spec)
		}
	}
	return specs
}

// interval reads a time such as 90s, 10m or 7d.
func interval(to *time.Duration, n ast.Node) error {
	var text string
	if err := scalar(&text, n); err != nil {
		return err
	}
	v, err := clock.ParseDuration(text)
	if err != nil || v < calendar.MinEvery || v > calendar.MaxEvery {
		return fmt.Errorf("is %q; it must be a time from %s to %dd, such as 90s, 10m or 1d", text, calendar.MinEvery, int(calendar.MaxEvery.Hours()/24))
	}
	*to = v
	return nil
}

// object reads a mapping as JSON.
func object(to *json.RawMessage, n ast.Node) error {
	values := map[string]any{}
	if n.Type() != ast.MappingType && n.Type() != ast.MappingValueType || yaml.NodeToValue(n, &values) != nil {
		return fmt.Errorf("must be a mapping of argument names to values")
	}
	text, err := json.Marshal(values)
	if err != nil {
		return fmt.Errorf("must be a mapping of argument names to values that JSON can represent")
	}
	*to = text
	return nil
}

func owner(to *tenant.ID, n ast.Node) error {
	var text string
	if err := scalar(&text, n); err != nil {
		return err
	}
	id, err := tenant.Parse(text)
	if err != nil {
		return fmt.Errorf("is %.60q, which is not a tenant: %s", text, fault.Message(err))
	}
	*to = id
	return nil
}
