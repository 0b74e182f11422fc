package session

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/store"
	"github.com/sandpiper-mcp/sandpiper/internal/store/appendlog"
	"github.com/sandpiper-mcp/sandpiper/internal/store/sealed"
)

// logKind is the kind of the logs of steps that are not in the database yet.
const logKind = "steps"

// CopyLogs copies the logs of steps next to the database at a path to another path, before the database is
// copied: Close of a Log of the copy stores what it does not have.
func CopyLogs(from, to string) error { return appendlog.CopyLogs(from, to, logKind) }

// Trim removes the log of steps of a Log that is not used for now.
func Trim(ctx context.Context, l *Log) error { return l.steps.Trim(ctx) }

// ofStep describes the frames of a log of steps. A step has its number when it is stored in the database.
var ofStep = sealed.Column{Table: "session_logs", Name: "step"}

// appendedStep is a step in the log of steps, as JSON. Its texts are bytes because they may be invalid UTF-8.
type appendedStep struct {
	Key, Session   string
	Number         int `json:",omitempty"`
	Task           taskData
	VarsLost, Lost bool `json:",omitempty"`
	Began, At      int64
	Files          [][]byte `json:",omitempty"`
	Record         []byte   `json:",omitempty"`
	Recorded       Recorded `json:",omitempty"`
}

// newQueue returns the log of steps of l.
func newQueue(l rows) *appendlog.Queue {
	return appendlog.NewQueue(appendlog.QueueConfig{DB: l.cfg.DB, Kind: logKind, Table: "session_logs", Log: l.cfg.Log,
		Store: func(ctx context.Context, tx *store.Tx, frames []appendlog.Frame) error {
			for _, f := range frames {
				var a appendedStep
				text, err := l.cipher.Open(ofStep, f.Payload)
				if err != nil {
					return fault.Wrap(fault.Internal, err, "the last steps of sessions are damaged or were encrypted with another key").
						WithHint("restore the file key of the data directory from a backup")
				}
				if err := json.Unmarshal(text, &a); err != nil {
					return err
				}
				if err := l.append(ctx, tx, a.Session, a.step(), moment(a.At)); err != nil {
					return err
				}
			}
			return nil
		}})
}

// enqueue appends a step to the log of steps and returns its key.
func enqueue(ctx context.Context, l *Log, id string, s Step) (key string, err error) {
	a := appendedStep{
		Key:      rand.Text(),
		Session:  id,
		Number:   s.Number,
		VarsLost: s.VarsLost,
		Lost:     s.InterpreterLost,
		Began:    s.Began.UnixMilli(),
		At:       time.Now().UnixMilli(),
		Record:   s.Record,
		Recorded: s.Recorded,
		Task:     taskData{[]byte(s.Description), []byte(s.Code), []byte(s.Result), []byte(s.Output), s.Vars, s.Fresh},
	}
	for _, path := range s.Files {
		a.Files = append(a.Files, []byte(path))
	}
	frame, err := l.cipher.encrypt(ofStep, a)
	if err != nil {
		return "", err
	}
	file, err := l.steps.Append(ctx, frame)
	if err != nil {
		return "", err
	}
	return a.Key, l.steps.Sync(ctx, file, true)
}

func (a appendedStep) step() Step {
	s := a.Task.step()
	s.Key, s.Number, s.VarsLost, s.InterpreterLost, s.Began = a.Key, a.Number, a.VarsLost, a.Lost, moment(a.Began)
	s.Record, s.Recorded = a.Record, a.Recorded
	for _, path := range a.Files {
		s.Files = append(s.Files, string(path))
	}
	return s
}

// step returns the step with the texts of t.
func (t taskData) step() Step {
	s := Step{Description: string(t.Description), Code: string(t.Code), Result: string(t.Result), Output: string(t.Output), Fresh: t.Fresh}
	if len(t.Vars) > 0 {
		s.Vars = json.RawMessage(t.Vars)
	}
	return s
}
