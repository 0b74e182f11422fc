// Package session keeps the log of what a tenant's sessions did.
//
// A session has an id that the client chose. Its log is a list of steps, each
// one execution with its code and what came of it, the files beneath
// /workspace/state that the steps wrote, and the latest checkpoint. Steps are
// what JSON calls tasks. The truth is the tenant's database; code sees each
// session as a JSON file, and the one that was at work last as
// current_session.json, in a read-only directory, the view, which follows the
// database within a tenth of a second.
//
// In the database all that steps and checkpoints say is encrypted, with a key of
// the tenant. In the clear are ids, times and sizes. The view is read by code of all
// sessions: private values are tokens in it.
//
// What is kept is bounded. Beyond the bounds the oldest steps of a session, and
// the sessions that were quiet for the longest time, make room; nothing is
// refused for want of it.
//
// A Log is safe for concurrent use, and several processes may have one for the
// same database and view. The package runs no code and holds no interpreter:
// that is package execution's.
package session

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/store"
	"github.com/sandpiper-mcp/sandpiper/internal/store/projection"
)

// Config of a Log.
type Config struct {
	DB         *store.DB // with Tables in it. Required
	Customer   string    // whose sessions these are, for their JSON. Required
	Projection string    // directory of the JSON files; it must exist. Required
	Lock       string    // file to lock while the view changes; outside of it. Required
	Key        []byte    // encrypts what is kept: 32 bytes, of the tenant alone. Required
	// Redact returns a text of a session as the view has it, with tokens in place of
	// what is private; nil leaves it. Code of all sessions reads the view, and it lies
	// on disk as it is.
	Redact   func(ctx context.Context, session, text string) (string, error)
	MaxBytes int64 // of all sessions; 0 means 64 MiB
	Sessions int   // kept; 0 means 1000
	Steps    int   // kept of one session; 0 means 1000
	// StepBytes bounds what the steps of one session hold; 0 means 4 MiB.
	StepBytes int64
}

func (c Config) withDefaults() Config {
	if c.MaxBytes == 0 {
		c.MaxBytes = 64 << 20
	}
	if c.Sessions == 0 {
		c.Sessions = 1000
	}
	if c.Steps == 0 {
		c.Steps = 1000
	}
	if c.StepBytes == 0 {
		c.StepBytes = 4 << 20
	}
	return c
}

// Bounds of one step; what is longer is cut, and says so.
const (
	maxText    = 64 << 10  // bytes of a result, of an output and of a checkpoint's context
	maxVars    = 256 << 10 // bytes of variables
	maxFiles   = 1000      // files of a session
	maxStepKey = 200       // bytes of a checkpoint's step
)

// Session is one session as its JSON form has it.
type Session struct {
	ID         string      `json:"session_id"`
	Customer   string      `json:"customer_uid"`
	Started    time.Time   `json:"started_at"`
	Ended      time.Time   `json:"ended_at"` // of the last step so far: a session can always go on
	Tasks      []Task      `json:"tasks"`
	StateFiles []string    `json:"state_files"`
	Checkpoint *Checkpoint `json:"checkpoint"` // nil if there is none
}

// Task is one step as its JSON form has it.
type Task struct {
	ID          string    `json:"task_id"`
	Description string    `json:"description"`
	Code        string    `json:"code"`
	Result      string    `json:"result"` // the value's JSON, or "error: " and what went wrong
	Output      string    `json:"output"`
	Timestamp   time.Time `json:"timestamp"` // when it began
}

// Checkpoint is where code said that it was.
type Checkpoint struct {
	Step      json.RawMessage `json:"step"`
	LastTask  string          `json:"last_task"` // the one that said it
	Context   json.RawMessage `json:"context"`
	Timestamp time.Time       `json:"timestamp"`
}

// Summary is a session without its steps.
type Summary struct {
	ID         string      `json:"session_id"`
	Started    time.Time   `json:"started_at"`
	Ended      time.Time   `json:"ended_at"`
	Tasks      int         `json:"tasks"`
	Checkpoint *Checkpoint `json:"checkpoint"`
}

// Step is one execution, for Append, and for who runs it again.
type Step struct {
	Number          int             // from 1 in its session; to Append, 0 means the next, else what Checkpoint gave
	Description     string          // in words; may be empty
	Code            string          // Python
	Vars            json.RawMessage // variables it was given; nil means none
	VarsLost        bool            // there were variables, too large to keep
	InterpreterLost bool            // its interpreter ended with it
	Result          string          // see Task
	Output          string
	Began           time.Time
	Files           []string // paths beneath /workspace/state that it wrote
}

// ID names the step as its JSON form does.
func (s Step) ID() string { return taskID(s.Number) }

func taskID(number int) string { return fmt.Sprintf("task_%03d", number) }

// Log holds the sessions of one tenant.
type Log struct {
	cfg  Config
	box  box
	view *projection.Dir
	seen redacted

	mu     sync.Mutex
	due    *time.Timer // the next Refresh by itself; nil if the view is up to date
	closed bool
	busy   sync.WaitGroup
}

// New returns the Log. The view is brought up to date by the first Refresh. The
// caller closes it before the database.
func New(cfg Config) (*Log, error) {
	box, err := newBox(cfg.Key)
	return &Log{cfg: cfg.withDefaults(), box: box, view: projection.New(cfg.Projection, cfg.Lock)}, err
}

var idForm = regexp.MustCompile(`^[a-zA-Z0-9_-][a-zA-Z0-9._-]{0,63}$`)

// current is the name under which the view has the session that was at work
// last.
const current = "current_session"

// CheckID refuses an id that no session can have.
func CheckID(id string) error {
	if !idForm.MatchString(id) {
		return fault.New(fault.Invalid, "session_id %.80q is not allowed: use 1 to 64 letters a-z and A-Z, digits, '.', '_' and '-', not starting with a dot", id)
	}
	if strings.EqualFold(id, current) {
		return fault.New(fault.Invalid, "session_id %q is not allowed: /workspace/sessions has a file of that name for the session that was at work last", id)
	}
	return nil
}

// Append adds a step and returns its number. When it returns the step survives
// the end of this process in every way, and a twentieth of a second later a loss
// of power too; a sync would take longer than all else of a call.
func (l *Log) Append(ctx context.Context, id string, s Step) (number int, err error) {
	if err := CheckID(id); err != nil {
		return 0, err
	}
	s.fit()
	err = l.cfg.DB.UpdateDeferredSync(ctx, func(tx *store.Tx) (err error) {
		number, err = l.append(ctx, tx, id, s)
		return err
	})
	if err == nil {
		l.soon()
	}
	return number, err
}

// Checkpoint keeps where the running step of a session says that it is, in place
// of what an earlier one said, and returns the number of that step, which
// nothing else gets: Append takes it when the step has ended. A step that says it
// again passes that number, else 0.
func (l *Log) Checkpoint(ctx context.Context, id string, number int, step, about json.RawMessage) (int, error) {
	if err := errors.Join(CheckID(id), checkCheckpoint(step, about)); err != nil {
		return 0, err
	}
	err := l.cfg.DB.Update(ctx, func(tx *store.Tx) (err error) {
		number, err = l.checkpoint(ctx, tx, id, number, step, about)
		return err
	})
	if err == nil {
		l.soon()
	}
	return number, err
}

func checkCheckpoint(step, about json.RawMessage) error {
	if !isStep(step) {
		return fault.New(fault.Invalid, "the step of a checkpoint is %.40s; it must be a number or a short string", step)
	}
	if !json.Valid(about) {
		return fault.New(fault.Invalid, "the context of a checkpoint must be JSON")
	}
	if len(about) > maxText {
		return fault.New(fault.Exhausted, "the context of a checkpoint has %d bytes; at most %d are allowed", len(about), maxText).
			WithHint("write the data to a file beneath /workspace/state and name it in the context")
	}
	return nil
}

func isStep(step json.RawMessage) bool {
	var v any
	if len(step) > maxStepKey || json.Unmarshal(step, &v) != nil {
		return false
	}
	switch v.(type) {
	case string, float64:
		return true
	}
	return false
}

// Find returns a session as its JSON form has it.
func (l *Log) Find(ctx context.Context, id string) (s Session, err error) {
	err = l.read(ctx, id, func(tx *store.Tx) (err error) {
		s, err = l.load(ctx, tx, id)
		return err
	})
	return s, err
}

// Replay returns the steps of a session that are kept, in order, with all that it
// takes to run them again.
func (l *Log) Replay(ctx context.Context, id string) (steps []Step, err error) {
	err = l.read(ctx, id, func(tx *store.Tx) (err error) {
		if err = exists(ctx, tx, id); err == nil {
			steps, err = l.loadSteps(ctx, tx, id)
		}
		return err
	})
	return steps, err
}

// Exists reports whether the session has a log.
func (l *Log) Exists(ctx context.Context, id string) (bool, error) {
	err := l.cfg.DB.View(ctx, func(tx *store.Tx) error { return exists(ctx, tx, id) })
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}

// read runs f and says what is there if it finds no row.
func (l *Log) read(ctx context.Context, id string, f func(*store.Tx) error) error {
	if err := CheckID(id); err != nil {
		return err
	}
	return l.cfg.DB.View(ctx, func(tx *store.Tx) error {
		err := f(tx)
		if errors.Is(err, sql.ErrNoRows) {
			return notFound(ctx, tx, id)
		}
		return err
	})
}

// List returns all sessions, the one that was at work last first.
func (l *Log) List(ctx context.Context) ([]Summary, error) {
	all := []Summary{}
	err := l.cfg.DB.View(ctx, func(tx *store.Tx) error {
		return each(ctx, tx, "SELECT "+summary+" FROM sessions ORDER BY changed DESC", nil, func(r scanner) error {
			s, err := l.scanSummary(r)
			all = append(all, s)
			return err
		})
	})
	return all, err
}

func notFound(ctx context.Context, tx *store.Tx, id string) error {
	var some []string
	err := each(ctx, tx, "SELECT id FROM sessions ORDER BY changed DESC LIMIT 20", nil, func(r scanner) error {
		var id string
		err := r.Scan(&id)
		some = append(some, id)
		return err
	})
	if err != nil {
		return err
	}
	missing := fault.New(fault.NotFound, "there is no session %q", id)
	if len(some) == 0 {
		return missing.WithHint("no session has begun yet: a session_id given with code begins one")
	}
	return missing.WithHint("sessions, latest first: %s", strings.Join(some, ", "))
}
