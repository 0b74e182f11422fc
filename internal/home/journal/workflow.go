package journal

import (
	"context"
	"errors"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/store"
)

// maxWorkflowRuns is how many ended runs of workflows are kept; the oldest are deleted first.
const maxWorkflowRuns = 1000

// SetWorkflow stores which workflow a run of this process executes. A run of a workflow is kept when it
// has ended.
func SetWorkflow(ctx context.Context, b *Runs, id, name, version string) error {
	return b.log.update(ctx, func(tx *store.Tx) error {
		if err := insert(ctx, b.log, tx, id); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, "UPDATE runs SET workflow = ?, version = ? WHERE execution = ?", name, version, id)
		return err
	})
}

// WorkflowRuns returns the latest runs of a workflow, or of all if the name is "".
func WorkflowRuns(ctx context.Context, b *Runs, name string, most int) ([]Run, error) {
	return workflowRuns(ctx, b.log, "? IN ('', workflow) ORDER BY created DESC, rowid DESC LIMIT ?", name, most)
}

// FindWorkflowRun returns a run of a workflow; NotFound if there is none.
func FindWorkflowRun(ctx context.Context, b *Runs, id string) (Run, error) {
	all, err := workflowRuns(ctx, b.log, "execution = ?", id)
	if err == nil && len(all) == 0 {
		err = fault.New(fault.NotFound, "there is no run %.60q of a workflow", id).WithHint("`sandpiper workflow history` lists the runs")
	}
	if err != nil {
		return Run{}, err
	}
	return all[0], nil
}

func workflowRuns(ctx context.Context, l *Log, where string, args ...any) (all []Run, err error) {
	if l.cfg.Process == nil {
		return nil, nil
	}
	err = l.calls.View(ctx, func(tx *store.Tx) error {
		all, err = selectRuns(ctx, l, tx, "WHERE workflow != '' AND "+where, args...)
		return err
	})
	for i := range all {
		err = errors.Join(err, decryptRun(l, &all[i]))
	}
	return all, err
}
