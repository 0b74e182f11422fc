package schedule

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/sandpiper-mcp/sandpiper/internal/cli"
	"github.com/sandpiper-mcp/sandpiper/internal/daemon"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

// commands returns the command schedules.
func commands(env *cli.Env) []*cobra.Command {
	named := func(use, short, long string, run func(ctx context.Context, name string) error) *cobra.Command {
		return &cobra.Command{
			Use: use + " NAME", Short: short, Long: long, Args: cobra.ExactArgs(1),
			RunE: func(cmd *cobra.Command, args []string) error { return run(cmd.Context(), args[0]) },
		}
	}
	c := cli.Group("schedules", "List, pause, resume and run schedules",
		&cobra.Command{
			Use: "list", Short: "List schedules with their next and last run",
			Long: `List shows the schedules of the configuration and those that an agent has created with
create_schedule: when each runs next, and how its last run ended. Times are in the
schedule's time zone.`,
			Args: cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error { return runList(cmd.Context(), env) },
		},
		named("pause", "Do not run a schedule until it is resumed",
			"Pause makes daemons skip the due times of a schedule. A run that was started continues.", func(ctx context.Context,
				name string) error {
				return runPause(ctx, env, name, true)
			}),
		named("resume", "Run a paused schedule again", "Resume ends a pause. Due times that passed in it are not run.",
			func(ctx context.Context, name string) error {
				return runPause(ctx, env, name, false)
			}),
		named("run", "Run a schedule now",
			`Run adds a run of a schedule, even of a paused one, and prints the id of its execution,
which a running daemon starts. Its due times stay the same.`, func(ctx context.Context, name string) error { return runRun(ctx, env, name) }),
		named("delete", "Delete a schedule that an agent has created",
			"Delete deletes a schedule. A run that was started continues.", func(ctx context.Context,
				name string) error {
				return runDelete(ctx, env, name)
			}),
	)
	c.Long = `List, pause, resume and run schedules. A schedule is created under schedules: in
sandpiper.yaml, or by an agent with create_schedule. A daemon runs it when it is due:

  schedules:
    - name: morning_report
      cron: "30 8 * * mon-fri"   # or every: 10m
      run: {skill: report}       # or {workflow: NAME}`
	c.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 && (args[0] == "add" || args[0] == "create") {
			return cli.Usagef("%q is not a command of %s: a schedule is created under schedules: in sandpiper.yaml", args[0],
				cmd.CommandPath())
		}
		return cli.CommandsOnly(cmd, args)
	}
	for _, sub := range c.Commands() {
		switch sub.Name() {
		case "delete":
			cli.SetArguments(env, sub, cli.Named(AgentQuery))
		case "pause", "resume", "run":
			cli.SetArguments(env, sub, names)
		}
	}
	c.GroupID = cli.CodeGroup
	return []*cobra.Command{cli.OfTenant(env, c)}
}

// names returns the schedules of the configuration, and those of agents.
func names(r cli.Request) ([]cobra.Completion, error) {
	all, err := cli.Named(AgentQuery)(r)
	for _, s := range configured(r.Cfg, r.Tenant, tenant.Local) {
		all = append(all, s.Name)
	}
	return all, err
}

func runList(ctx context.Context, env *cli.Env) error {
	return cli.WithDaemonHome(ctx, env, func(d *daemon.Daemon, h *home.Home) error {
		all, err := of(d).List(ctx, h)
		if err != nil {
			return err
		}
		list := Describe(all)
		if err := AddReasons(ctx, h, list); err != nil {
			return err
		}
		if env.JSON {
			return cli.WriteList(env, "schedules", list)
		}
		env.PrintEmpty(len(list), "there are no schedules; add one to schedules: in the configuration")
		for i, s := range list {
			env.Printf("%-24s %-20s %-24s next %s%s\n", s.Name, s.When, s.Runs, formatTime(s.Next), lastRun(s))
			if all[i].Damaged != nil {
				env.Warn(all[i].Damaged.Error())
			}
		}
		return nil
	})
}

func formatTime(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return t.Format("2006-01-02 15:04:05 MST")
}

// lastRun describes the state and the last run of a schedule.
func lastRun(s Listed) (text string) {
	if s.State != "active" {
		text = "; " + s.State
	}
	if s.Last != nil {
		text += fmt.Sprintf("; last %s: %s %s", formatTime(s.Last.Due), s.Last.Outcome, s.Last.Execution)
		if s.Last.Error != "" {
			text += " (" + cli.VisibleName(s.Last.Error) + ")"
		}
	}
	if s.Passed != nil {
		text += fmt.Sprintf("; %s: %s", formatTime(s.Passed.Due), s.Passed.Outcome)
		if s.Passed.Error != "" {
			text += " (" + s.Passed.Error + ")"
		}
	}
	if p := s.PutBack; p != nil {
		text += fmt.Sprintf("; the clock was put back by %s at %s", (time.Duration(p.By) * time.Second).String(), formatTime(p.At))
	}
	if s.Waiting > 0 {
		text += fmt.Sprintf("; %d waiting", s.Waiting)
	}
	return text
}

func runPause(ctx context.Context, env *cli.Env, name string, paused bool) error {
	return cli.WithDaemonHome(ctx, env, func(d *daemon.Daemon, h *home.Home) error {
		if err := of(d).Pause(ctx, h, name, paused); err != nil {
			return err
		}
		if env.JSON {
			return env.WriteJSON(map[string]any{"success": true, "name": name, "paused": paused})
		}
		return nil
	})
}

func runRun(ctx context.Context, env *cli.Env, name string) error {
	return cli.WithDaemonHome(ctx, env, func(d *daemon.Daemon, h *home.Home) error {
		id, err := of(d).Run(ctx, h, name)
		if err != nil {
			return err
		}
		cli.HintDaemon(env, d)
		if env.JSON {
			return env.WriteJSON(map[string]any{"success": true, "name": name, "execution_id": id})
		}
		env.Printf("%s\n", id)
		return nil
	})
}

func runDelete(ctx context.Context, env *cli.Env, name string) error {
	return cli.WithDaemonHome(ctx, env, func(d *daemon.Daemon, h *home.Home) error {
		if err := CheckName(name); err != nil {
			return err
		}
		if err := of(d).Delete(ctx, h, name); err != nil {
			return err
		}
		if env.JSON {
			return env.WriteJSON(map[string]any{"success": true, "deleted": name})
		}
		return nil
	})
}

// of returns the schedules of a daemon.
func of(d *daemon.Daemon) *Schedules { return daemon.Started[*Schedules](d) }
