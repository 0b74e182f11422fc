package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sandpiper-mcp/sandpiper/internal/daemon"
	"github.com/sandpiper-mcp/sandpiper/internal/journal"
	"github.com/sandpiper-mcp/sandpiper/internal/tenants"
)

func (a *app) executionsCommand() *cobra.Command {
	return group("executions", "Find executions that were cut short, and go on with them",
		&cobra.Command{
			Use: "list", Short: "List executions that were cut short, the latest first",
			Long: `List shows executions that called something which may have changed something, or
asked the person, and did not come to their end: since their process was killed or
ended, a limit ended them, or nobody waited for them any more. They are kept for
seven days. Plans that wait to be approved are there too, for 24 hours.`,
			Args: cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error { return a.runExecutionsList(cmd.Context()) },
		},
		&cobra.Command{
			Use: "resume ID", Short: "Run an execution again that was cut short, or carry out a plan",
			Long: `Resume runs the code again, from its first line and under its id. What it was
answered before it is answered again from the record: no call is repeated, and
nobody is asked twice. A call of which it is not known whether it happened fails
with an error that says so. With the id of a plan (exec --dry-run prints it) it asks
you to approve the plan, and makes its calls.`,
			Example: "  sandpiper executions list\n  sandpiper executions resume exec_e25rjubtohqyskjqfnsornzl3p",
			Args:    cobra.ExactArgs(1),
			RunE:    func(cmd *cobra.Command, args []string) error { return a.runExecutionsResume(cmd.Context(), args[0]) },
		},
	)
}

// cutShort is an execution that may be resumed, as a list shows it.
type cutShort struct {
	ID       string    `json:"execution_id"`
	State    string    `json:"state"`
	Why      string    `json:"why"`
	Began    time.Time `json:"began"`
	Ended    time.Time `json:"last_recorded"`
	Tools    []string  `json:"tools"`
	Answered int       `json:"answered"`
	Unknown  int       `json:"unknown"`
}

func cutShortOf(l journal.Left) cutShort {
	c := cutShort{ID: l.Execution, State: string(l.State), Began: l.Created, Ended: l.Changed, Answered: l.Answered, Unknown: l.Unknown, Tools: []string{}}
	for _, t := range l.Tools {
		c.Tools = append(c.Tools, t.String())
	}
	switch l.State {
	case journal.Running:
		c.State, c.Why = "interrupted", "its process ended while it ran"
	case journal.Planned:
		c.Why = "it is a plan: resume asks you to approve it"
	case journal.Parked:
		c.Why = "it waits for the person"
	case journal.TooLarge:
		c.Why = "it was answered more than is kept, and cannot be resumed"
	default:
		c.Why = "it ended as " + strings.ReplaceAll(string(l.State), "_", " ")
	}
	return c
}

// reached is how far it came: how much it was answered, and which tools it called.
func (c cutShort) reached() string {
	if len(c.Tools) == 0 {
		return ""
	}
	unknown := ""
	if c.Unknown > 0 {
		unknown = fmt.Sprintf(", %d unknown", c.Unknown)
	}
	return fmt.Sprintf("; %d answered%s: %s", c.Answered, unknown, visibleName(strings.Join(c.Tools, " ")))
}

func (a *app) runExecutionsList(ctx context.Context) error {
	return a.home(ctx, func(home *tenants.Home) error {
		left, err := home.Journal.Left(ctx)
		if err != nil {
			return err
		}
		all := []cutShort{}
		for _, l := range left {
			all = append(all, cutShortOf(l))
		}
		if a.json {
			return a.writeJSON(map[string]any{"count": len(all), "executions": all})
		}
		for _, c := range all {
			a.printf("%s  %s  %s%s\n", c.ID, c.Ended.Local().Format("2006-01-02 15:04:05"), c.Why, c.reached())
		}
		return nil
	})
}

func (a *app) runExecutionsResume(ctx context.Context, id string) error {
	return a.ready(ctx, a.watch(), func(d *daemon.Daemon, home *tenants.Home) error {
		x, err := d.Runner.Resume(ctx, home, id)
		if err != nil {
			return err
		}
		r, err := a.follow(ctx, d, home, x)
		if err != nil {
			return err
		}
		return a.finish(ctx, r)
	})
}
