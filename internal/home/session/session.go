// Package session stores the logs of a tenant's sessions.
//
// A session has an id that the client chose. Its log is a list of steps, the files below
// /workspace/state that the steps wrote, and the latest checkpoint. A step is one execution
// with its code and its result; the JSON form calls it a task. The tenant's database is
// authoritative. Code sees a read-only projection of it: a directory with each session as a JSON
// file, and the most recently used one as current_session.json. The projection follows the
// database within a tenth of a second.
//
// The content of steps and checkpoints is encrypted in the database with a key of the tenant;
// ids, times and sizes are not. Code of all sessions can read the projection, so private values
// are replaced by tokens in it.
//
// A step may have a record of its calls, with which it can be replayed; the package does not read
// it.
//
// Storage is bounded. Beyond the limits the oldest steps of a session and the least recently
// used sessions are deleted, or only their records; no step is refused.
//
// A Log is safe for concurrent use, and several processes may have one for the same database
// and projection. The package runs no code and holds no interpreter: see package execution.
package session

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/store"
	"github.com/sandpiper-mcp/sandpiper/internal/store/appendlog"
	"github.com/sandpiper-mcp/sandpiper/internal/store/projection"
)

// Config of a Log.
type Config struct {
	DB         *store.DB // with Tables in it. Required
	Customer   string    // customer_uid of the JSON form. Required
	Projection string    // directory of the JSON files; it must exist. Required
	Lock       string    // lock file for changes of the projection; outside of it. Required
	Key        []byte    // encryption key of the tenant, 32 bytes. Required
	// Redact replaces private values in a text of a session by tokens, for the
	// projection; nil leaves the text unchanged.
	Redact   func(ctx context.Context, session, text string) (string, error)
	MaxBytes int64 // of all sessions; 0 means 64 MiB
	Sessions int   // kept; 0 means 1000
	Steps    int   // kept of one session; 0 means 1000
	// StepBytes bounds what the steps of one session hold; 0 means 4 MiB.
	StepBytes int64
	// RecordBytes bounds the records of all sessions; 0 means 64 MiB. Those of one session
	// have at most a quarter of it.
	RecordBytes int64
	Log         *slog.Logger // nil means discard
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
	if c.RecordBytes == 0 {
		c.RecordBytes = 64 << 20
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}

// Limits of one step. Longer text is truncated and marked.
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
	Ended      time.Time   `json:"ended_at"` // end of the latest step; a session can always continue
	Tasks      []Task      `json:"tasks"`
	StateFiles []string    `json:"state_files"`
	Checkpoint *Checkpoint `json:"checkpoint"` // nil if there is none
}

// Task is one step as its JSON form has it.
type Task struct {
	ID          string    `json:"task_id"`
	Description string    `json:"description"`
	Code        string    `json:"code"`
	Result      string    `json:"result"` // JSON of the value, or "error: " and the message
	Output      string    `json:"output"`
	Timestamp   time.Time `json:"timestamp"` // when it began
}

// Checkpoint is the progress that code recorded with checkpoint().
type Checkpoint struct {
	Step      json.RawMessage `json:"step"`
	LastTask  string          `json:"last_task"` // task that recorded it
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

// Step is one execution, as passed to Append and returned by Replay.
type Step struct {
	Key             string          // of Append, which sets it
	Number          int             // from 1 in its session; 0 in Append means the next, otherwise the result of Checkpoint
	Description     string          // may be empty
	Code            string          // Python
	Vars            json.RawMessage // context_vars; nil means none
	VarsLost        bool            // the variables were too large to store
	InterpreterLost bool            // its interpreter ended with this step
	Fresh           bool            // its interpreter lacked the variables of earlier steps
	Result          string          // see Task
	Output          string
	Began           time.Time
	Files           []string // paths below /workspace/state that the step wrote
	Record          []byte   // of its calls; nil for none
	Recorded        Recorded // whether Record has all of them
}

// Recorded states whether the calls of a step are on record.
type Recorded int

// A step without a record can only be run again with its calls.
const (
	NotRecorded    Recorded = iota // it is older than records
	Complete                       // its calls are on record
	RecordTooLarge                 // they were too large
	RecordDeleted                  // they were deleted because of the limits
)

// ID returns the task_id of the JSON form.
func (s Step) ID() string { return taskID(s.Number) }

// task returns the JSON form of s.
func (s Step) task() Task { return Task{s.ID(), s.Description, s.Code, s.Result, s.Output, s.Began} }

func taskID(number int) string { return fmt.Sprintf("task_%03d", number) }

// Log contains the sessions of one tenant.
type Log struct{ shown }

// rows reads and writes the sessions in the database.
type rows struct {
	cfg    Config
	cipher cipher
	steps  *appendlog.Queue // that are not in the database yet
}

// shown keeps the directory current that shows the sessions as files.
type shown struct {
	rows
	view *projection.Dir
	seen rendered

	mu     sync.Mutex
	due    *time.Timer // scheduled Refresh; nil if the projection is current
	closed bool
	busy   sync.WaitGroup
}

// New returns the Log. The first Refresh updates the projection. The caller closes the
// Log before the database.
func New(cfg Config) (*Log, error) {
	cipher, err := newCipher(cfg.Key)
	r := rows{cfg: cfg.withDefaults(), cipher: cipher}
	r.steps = newQueue(r)
	return &Log{shown{rows: r, view: projection.New(cfg.Projection, cfg.Lock)}}, err
}

var idForm = regexp.MustCompile(`^[a-zA-Z0-9_-][a-zA-Z0-9._-]{0,63}$`)

// current is the file name of the most recently used session in the projection.
const current = "current_session"

// CheckID reports whether id is a valid session id.
func CheckID(id string) error {
	if !idForm.MatchString(id) {
		return fault.New(fault.Invalid, "session_id %.80q is not allowed: use 1 to 64 letters a-z and A-Z, digits, '.', '_' and '-', not "+
			"starting with a dot", id)
	}
	if strings.EqualFold(id, current) {
		return fault.New(fault.Invalid, "session_id %q is not allowed: /workspace/sessions has a file of that name for the most recently "+
			"used session", id)
	}
	return nil
}

// Append adds a step and returns a key that identifies it, also in other sessions. When it returns, the step
// survives the end of this process, and 50 ms later a loss of power too. It does not sync, because that would
// take longer than the rest of a call. The step is in a file next to the database first, and in the database
// before a session is read.
func (l *Log) Append(ctx context.Context, id string, s Step) (key string, err error) {
	if err := errors.Join(CheckID(id), ctx.Err()); err != nil {
		return "", err
	}
	s.fit()
	if key, err = enqueue(ctx, l, id, s); err == nil {
		l.soon()
	}
	return key, err
}

// Checkpoint stores the checkpoint of the running step, replacing any earlier one, and
// reserves and returns the number of that step for Append. A later checkpoint of the same step
// passes that number, the first one passes 0.
func (l *Log) Checkpoint(ctx context.Context, id string, number int, step, about json.RawMessage) (int, error) {
	if err := errors.Join(CheckID(id), checkCheckpoint(step, about)); err != nil {
		return 0, err
	}
	err := l.steps.Update(ctx, func(tx *store.Tx) (err error) {
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

// Replay returns the stored steps of a session in order, with all that is needed to run them again.
func (l *Log) Replay(ctx context.Context, id string) (steps []Step, err error) {
	err = l.read(ctx, id, func(tx *store.Tx) (err error) {
		if err = exists(ctx, tx, id); err == nil {
			steps, err = l.loadSteps(ctx, tx, id, 0)
		}
		return err
	})
	return steps, err
}

// Exists reports whether the session has a log.
func (l *Log) Exists(ctx context.Context, id string) (bool, error) {
	err := l.steps.View(ctx, func(tx *store.Tx) error { return exists(ctx, tx, id) })
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}

// read runs f, and returns a NotFound error with known ids for sql.ErrNoRows.
func (l rows) read(ctx context.Context, id string, f func(*store.Tx) error) error {
	if err := CheckID(id); err != nil {
		return err
	}
	return l.steps.View(ctx, func(tx *store.Tx) error {
		err := f(tx)
		if errors.Is(err, sql.ErrNoRows) {
			return notFound(ctx, tx, id)
		}
		return err
	})
}

// List returns all sessions, most recently used first.
func (l *Log) List(ctx context.Context) ([]Summary, error) {
	all := []Summary{}
	err := l.steps.View(ctx, func(tx *store.Tx) error {
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
