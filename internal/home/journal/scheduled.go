package journal

import (
	"context"
	"database/sql"
	"errors"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/store"
)

// AddIn adds an execution that is due now, in the transaction of a schedule in the same database.
func (b *Runs) AddIn(ctx context.Context, tx *store.Tx, id string, request []byte) error {
	if b.log.cfg.Process == nil {
		return errNoProcess
	}
	if err := addRun(ctx, b.log, tx, Run{Execution: id, State: Queued, OnRestart: ResumeOnRestart, Request: request}); err != nil {
		return err
	}
	return touch(ctx, b.log, tx)
}

// OutcomeIn returns how an execution has ended, "" if it has not; NotFound if it is not known, since
// results are kept for a limited time.
func (b *Runs) OutcomeIn(ctx context.Context, tx *store.Tx, id string) (outcome string, err error) {
	err = tx.QueryRowContext(ctx, "SELECT CASE state WHEN 'ended' THEN outcome ELSE '' END FROM runs WHERE execution = ?", id).
		Scan(&outcome)
	if errors.Is(err, sql.ErrNoRows) {
		return "", fault.New(fault.NotFound, "there is no background execution %.60q", id)
	}
	return outcome, err
}
