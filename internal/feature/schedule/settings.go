package schedule

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/config"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

// Settings are the schedules of the configuration.
type Settings struct {
	Schedules []Entry `key:"schedules"` // in the order of the file
}

// Entry is a schedule of the configuration.
type Entry struct {
	Name     string        `key:"name"`
	Cron     string        `key:"cron"`
	Every    time.Duration `key:"every" range:"1s 366d"`
	TimeZone string        `key:"time_zone"`
	Run      struct {
		Skill    string `key:"skill"`
		Workflow string `key:"workflow"`
	} `key:"run"`
	Inputs    json.RawMessage `key:"inputs"`
	Tenant    tenant.ID       `key:"tenant"` // zero means the tenant of clients without a token
	OnOverlap Overlap         `key:"on_overlap"`
	OnMissed  Missed          `key:"on_missed"`
	At        string          `key:"@"` // file and line
}

// Spec returns what e describes.
func (e Entry) Spec() Spec {
	return Spec{
		Name:      e.Name,
		Cron:      e.Cron,
		Every:     e.Every,
		TimeZone:  e.TimeZone,
		Skill:     e.Run.Skill,
		Workflow:  e.Run.Workflow,
		Inputs:    e.Inputs,
		OnOverlap: e.OnOverlap,
		OnMissed:  e.OnMissed,
	}
}

// Check reports the first entry that cannot be a schedule, or has the name of another one.
func (s *Settings) Check() error {
	for i, one := range s.Schedules {
		if _, err := one.Spec().Check(); err != nil {
			return fault.New(fault.Invalid, "%s: schedules: %s", one.At, fault.Message(err)).WithHint("%s", fault.Hint(err))
		}
		same := func(o Entry) bool { return o.Name == one.Name && o.Tenant == one.Tenant }
		if j := slices.IndexFunc(s.Schedules[:i], same); j >= 0 {
			return fault.New(fault.Invalid, "%s: schedules: the name %q is already used, at %s", one.At, one.Name, s.Schedules[j].At)
		}
	}
	return nil
}

// configured returns the schedules of a tenant. without is the tenant of clients without a token.
func configured(c *config.Config, id, without tenant.ID) (specs []Spec) {
	for _, e := range config.Of[Settings](c).Schedules {
		if e.Tenant == id || e.Tenant.IsZero() && id == without {
			specs = append(specs, e.Spec())
		}
	}
	return specs
}
