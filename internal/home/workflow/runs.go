package workflow

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/store"
	"github.com/sandpiper-mcp/sandpiper/internal/store/sealed"
)

// States of a run. Other states are the statuses of ended executions.
const (
	Running   = "running"
	Completed = "completed"
)

// Run is a run of a workflow.
type Run struct {
	Execution string    `json:"execution_id"`
	Workflow  string    `json:"workflow"`
	Version   string    `json:"version,omitempty"`
	Started   time.Time `json:"started"`
	Ended     time.Time `json:"ended,omitzero"`
	State     string    `json:"state"`
}

// Request is what a run was started with.
type Request struct {
	Inputs json.RawMessage `json:"inputs"`
	Code   string          `json:"code"`
}

// Result is how a run ended.
type Result struct {
	Value     json.RawMessage `json:"result,omitempty"`
	Error     string          `json:"error,omitempty"`
	ErrorType string          `json:"error_type,omitempty"`
}

// The encrypted columns.
var (
	ofRequest = sealed.Column{Table: "workflow_runs", Name: "encrypted", Keys: []string{"execution"}}
	ofResult  = sealed.Column{Table: "workflow_runs", Name: "result", Keys: []string{"execution"}}
)

// Columns are the encrypted columns of Tables.
var Columns = []sealed.Column{ofRequest, ofResult}

// open decrypts a column. what names it in the error.
func (s *Store) open(c sealed.Column, what, execution string, encrypted []byte) ([]byte, error) {
	text, err := s.cfg.In.Box.Open(c, encrypted, execution)
	if err != nil {
		return nil, fault.Wrap(fault.Internal, err, "%s of %q is damaged or was encrypted with another key", what, execution).
			WithHint("save it again, or restore a backup")
	}
	return text, nil
}

// Begin records the start of a run. It is on disk when Begin returns.
func (s *Store) Begin(ctx context.Context, r Run, of Request) error {
	text, err := json.Marshal(of)
	if err != nil {
		return err
	}
	if s.cfg.Room != nil {
		if err := s.cfg.Room(int64(len(text))); err != nil {
			return err
		}
	}
	return s.cfg.In.DB.Update(ctx, func(tx *store.Tx) error {
		_, err := tx.ExecContext(ctx, "DELETE FROM workflow_runs WHERE execution IN (SELECT execution FROM workflow_runs WHERE ended > 0 ORDER BY started DESC LIMIT -1 OFFSET ?)", MaxRuns)
		if err == nil {
			_, err = tx.ExecContext(ctx, "INSERT OR REPLACE INTO workflow_runs (execution, workflow, version, started, ended, state, encrypted) VALUES (?, ?, ?, ?, 0, ?, ?)",
				r.Execution, r.Workflow, r.Version, time.Now().UnixMilli(), Running, s.cfg.In.Box.Seal(ofRequest, text, r.Execution))
		}
		return err
	})
}

// End records the end of a run. An execution that is no run is ignored.
func (s *Store) End(ctx context.Context, execution, state string, how Result) error {
	text, err := json.Marshal(how)
	if err != nil {
		return err
	}
	return s.cfg.In.DB.Update(ctx, func(tx *store.Tx) error {
		_, err := tx.ExecContext(ctx, "UPDATE workflow_runs SET ended = ?, state = ?, result = ? WHERE execution = ?",
			time.Now().UnixMilli(), state, s.cfg.In.Box.Seal(ofResult, text, execution), execution)
		return err
	})
}

const runColumns = "SELECT execution, workflow, version, started, ended, state FROM workflow_runs "

// Runs returns the latest runs, of one workflow unless name is "".
func (s *Store) Runs(ctx context.Context, name string, most int) (all []Run, err error) {
	all = []Run{}
	err = s.cfg.In.DB.View(ctx, func(tx *store.Tx) error {
		rows, err := tx.QueryContext(ctx, runColumns+"WHERE ? IN ('', workflow) ORDER BY started DESC, rowid DESC LIMIT ?", name, most)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			r, err := scanRun(rows)
			if err != nil {
				return err
			}
			all = append(all, r)
		}
		return rows.Err()
	})
	return all, err
}

func scanRun(row interface{ Scan(...any) error }) (r Run, err error) {
	var started, ended int64
	err = row.Scan(&r.Execution, &r.Workflow, &r.Version, &started, &ended, &r.State)
	r.Started = time.UnixMilli(started).UTC()
	if ended > 0 {
		r.Ended = time.UnixMilli(ended).UTC()
	}
	return r, err
}

// FindRun returns a run with its request, and its result if it has ended; NotFound if there is none.
func (s *Store) FindRun(ctx context.Context, execution string) (r Run, of Request, how *Result, err error) {
	var request, result []byte
	err = s.cfg.In.DB.View(ctx, func(tx *store.Tx) error {
		r, err = scanRun(tx.QueryRowContext(ctx, runColumns+"WHERE execution = ?", execution))
		if errors.Is(err, sql.ErrNoRows) {
			return fault.New(fault.NotFound, "there is no run %.60q of a workflow", execution).
				WithHint("`sandpiper workflow history` lists the runs")
		}
		if err != nil {
			return err
		}
		return tx.QueryRowContext(ctx, "SELECT encrypted, result FROM workflow_runs WHERE execution = ?", execution).Scan(&request, &result)
	})
	if err != nil {
		return r, of, nil, err
	}
	text, err := s.open(ofRequest, "the request", execution, request)
	if err == nil {
		err = json.Unmarshal(text, &of)
	}
	if err != nil || result == nil {
		return r, of, nil, err
	}
	how = &Result{}
	if text, err = s.open(ofResult, "the result", execution, result); err == nil {
		err = json.Unmarshal(text, how)
	}
	return r, of, how, err
}
