// Package schedule runs skills and workflows of tenants at times.
//
// A schedule has a calendar and the name of a skill or workflow to run. Those of the
// configuration are stored as far as their state goes, the specifications of those that an agent has
// created as sealed bodies. A due time is handled in one transaction: its run is added to the background
// executions, or is recorded as skipped or missed. So of several daemons one starts it, and one that
// is killed has either started it or not handled it. Of the due times that passed unhandled, only
// the last counts.
//
// A Store is safe for concurrent use, and several processes may have one for the same database.
// It has no clock: callers state the time. It runs nothing: Schedules lets a daemon handle due times.
package schedule

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/schedule/calendar"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/store"
	"github.com/sandpiper-mcp/sandpiper/internal/store/sealed"
)

// tables creates the tables of schedules and their runs.
const tables = `
CREATE TABLE schedules (
	name    TEXT    NOT NULL PRIMARY KEY,
	created INTEGER NOT NULL, -- Unix milliseconds, as all times
	timing  TEXT    NOT NULL, -- hash of the calendar: due times of another calendar do not count
	anchor  INTEGER NOT NULL, -- start of the intervals
	handled INTEGER NOT NULL, -- the last due time that was handled, or the time from which due times count
	paused  INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE TABLE schedule_runs (
	number    INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
	schedule  TEXT    NOT NULL,
	due       INTEGER NOT NULL,
	handled   INTEGER NOT NULL,
	state     TEXT    NOT NULL, -- 'started', 'waiting', or how it ended
	execution TEXT    NOT NULL, -- '' unless it was started
	ended     INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX schedule_runs_of ON schedule_runs (schedule, number);
CREATE INDEX schedule_runs_unfinished ON schedule_runs (state) WHERE state IN ('started', 'waiting');
`

// AgentQuery selects the schedules that an agent has created; see home.Names.
const AgentQuery = "SELECT name, 'agent' FROM sealed WHERE kind = 'schedule' ORDER BY name"

// Overlap selects the handling of a due time while an earlier run has not ended.
type Overlap string

// Missed selects the handling of a due time that passed while no daemon was running.
type Missed string

const (
	SkipOverlap  Overlap = "skip"  // the default
	QueueOverlap Overlap = "queue" // it runs when the earlier ones have ended

	RunOnce    Missed = "run_once" // the default: the last of several is run
	SkipMissed Missed = "skip"
)

// Spec describes a schedule.
type Spec struct {
	Name      string          `json:"name"`
	Cron      string          `json:"cron,omitempty"`
	Every     time.Duration   `json:"every,omitempty"` // nanoseconds
	TimeZone  string          `json:"time_zone,omitempty"`
	Skill     string          `json:"skill,omitempty"` // either this or Workflow
	Workflow  string          `json:"workflow,omitempty"`
	Inputs    json.RawMessage `json:"inputs,omitempty"` // a JSON object; nil means none
	OnOverlap Overlap         `json:"on_overlap,omitempty"`
	OnMissed  Missed          `json:"on_missed,omitempty"`
}

// Limits of a tenant's schedules.
const (
	MaxName         = 64
	MaxStored       = 100 // created by an agent
	MaxInputBytes   = 64 << 10
	maxWaiting      = 100 // runs of one schedule that wait for an earlier one
	maxRuns         = 50  // ended runs of one schedule that are kept
	maxStartsAtOnce = 200 // in one transaction
)

// grace is how late a due time may be handled without being missed.
const grace = time.Minute

// Check reports what is wrong with s, and returns its calendar.
func (s Spec) Check() (calendar.Calendar, error) {
	if err := CheckName(s.Name); err != nil {
		return calendar.Calendar{}, err
	}
	switch {
	case (s.Skill == "") == (s.Workflow == ""):
		return calendar.Calendar{}, fault.New(fault.Invalid, "schedule %q must run either a skill or a workflow", s.Name).
			WithHint("set run to {skill: NAME} or {workflow: NAME}")
	case s.OnOverlap != "" && s.OnOverlap != SkipOverlap && s.OnOverlap != QueueOverlap:
		return calendar.Calendar{}, fault.New(fault.Invalid, "on_overlap is %.40q; it must be skip or queue", s.OnOverlap)
	case s.OnMissed != "" && s.OnMissed != RunOnce && s.OnMissed != SkipMissed:
		return calendar.Calendar{}, fault.New(fault.Invalid, "on_missed is %.40q; it must be run_once or skip", s.OnMissed)
	case len(s.Inputs) > MaxInputBytes:
		return calendar.Calendar{}, fault.New(fault.Exhausted, "inputs has %d bytes of JSON; at most %d are allowed", len(s.Inputs),
			MaxInputBytes).
			WithHint("write large data to a file in /workspace, and pass its name")
	}
	if len(s.Inputs) > 0 {
		var members map[string]json.RawMessage
		if json.Unmarshal(s.Inputs, &members) != nil {
			return calendar.Calendar{}, fault.New(fault.Invalid, "inputs must be an object of argument names and values")
		}
	}
	return calendar.New(calendar.Config{Cron: s.Cron, Every: s.Every, TimeZone: s.TimeZone})
}

// program returns what s runs: the kind of a program, which is the name of its field, and its name.
func (s Spec) program() (kind, name string) {
	if s.Workflow != "" {
		return "workflow", s.Workflow
	}
	return "skill", s.Skill
}

// Target describes what s runs: skill or workflow, and its name.
func (s Spec) Target() string {
	kind, name := s.program()
	return kind + " " + name
}

// CheckName reports why a name is not allowed.
func CheckName(name string) error {
	bad := func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '_' && r != '-' && r != '.'
	}
	if name == "" || len(name) > MaxName || strings.ContainsFunc(name, bad) || name[0] == '-' || name[0] == '.' {
		return fault.New(fault.Invalid, "%.70q cannot be the name of a schedule", name).
			WithHint("use 1 to %d letters, digits, _, - and ., and a letter, digit or _ first", MaxName)
	}
	return nil
}

// timing identifies the calendar of s.
func (s Spec) timing() string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%d\x00%s", s.Cron, s.Every, s.TimeZone))
	return hex.EncodeToString(sum[:])
}

// Executions are the background executions of the tenant. They are in the same database, so
// that a run is added in the transaction that handles its due time.
type Executions interface {
	// AddIn adds an execution that is due now.
	AddIn(ctx context.Context, tx *store.Tx, id string, request []byte) error
	// OutcomeIn returns how an execution has ended, "" if it has not. The error is NotFound if
	// nothing is known of it any more.
	OutcomeIn(ctx context.Context, tx *store.Tx, id string) (string, error)
}

// Config of a Store.
type Config struct {
	In         sealed.Store // with the tables of Feature in its database. Required
	Executions Executions   // required
	// Due is called with the time of the next run of a schedule that an agent has created,
	// before that is committed; zero means none. nil means no call.
	Due func(time.Time) error
}

// Store contains the schedules of one tenant.
type Store struct {
	cfg   Config
	specs sealed.Table // created by an agent
}

// Open returns the schedules of a home. It does no I/O.
func Open(h *home.Home) *Store {
	due := func(at time.Time) error { return h.SetDue(name, at) }
	return New(Config{In: h.Sealed(), Executions: h.Runs, Due: due})
}

// New returns the Store of a tenant. It does no I/O.
func New(cfg Config) *Store {
	return &Store{cfg, sealed.Table{Store: cfg.In, Kind: "schedule", Noun: "schedule"}}
}

// decode returns the schedule of an agent.
func decode(b sealed.Body) (spec Spec, err error) {
	if err = b.Damaged; err == nil {
		err = json.Unmarshal(b.Text, &spec)
	}
	if err != nil {
		spec.Name = b.Name
		err = fault.Wrap(fault.Internal, err, "schedule %s is damaged or was encrypted with another key", b.Name).
			WithHint("delete it with `sandpiper schedules delete %s`, or restore the file key of the data directory from a backup", b.Name)
	}
	return spec, err
}

// newExecution returns an unguessable id of an execution: 130 random bits.
func newExecution() string { return "exec_" + strings.ToLower(rand.Text()) }
