package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/sandpiper-mcp/sandpiper/internal/cli"
	"github.com/sandpiper-mcp/sandpiper/internal/daemon"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/home/schedule"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver"
)

func schedulesCommand(env *cli.Env) *cobra.Command {
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
			RunE: func(cmd *cobra.Command, _ []string) error { return runSchedulesList(cmd.Context(), env) },
		},
		named("pause", "Do not run a schedule until it is resumed",
			"Pause makes daemons skip the due times of a schedule. A run that was started continues.", func(ctx context.Context, name string) error {
				return runSchedulesPause(ctx, env, name, true)
			}),
		named("resume", "Run a paused schedule again", "Resume ends a pause. Due times that passed in it are not run.", func(ctx context.Context, name string) error {
			return runSchedulesPause(ctx, env, name, false)
		}),
		named("run", "Run a schedule now",
			`Run adds a run of a schedule, even of a paused one, and prints the id of its execution,
which a running daemon starts. Its due times stay the same.`, func(ctx context.Context, name string) error { return runSchedulesRun(ctx, env, name) }),
		named("delete", "Delete a schedule that an agent has created",
			"Delete deletes a schedule. A run that was started continues.", func(ctx context.Context, name string) error { return runSchedulesDelete(ctx, env, name) }),
	)
	c.Long = `List, pause, resume and run schedules. A schedule is created under schedules: in
sandpiper.yaml, or by an agent with create_schedule. A daemon runs it when it is due:

  schedules:
    - name: morning_report
      cron: "30 8 * * mon-fri"   # or every: 10m
      run: {skill: report}       # or {workflow: NAME}`
	c.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 && (args[0] == "add" || args[0] == "create") {
			return cli.Usagef("%q is not a command of %s: a schedule is created under schedules: in sandpiper.yaml", args[0], cmd.CommandPath())
		}
		return cli.CommandsOnly(cmd, args)
	}
	return cli.OfTenant(env, c)
}

func runSchedulesList(ctx context.Context, env *cli.Env) error {
	return cli.WithDaemonHome(ctx, env, func(d *daemon.Daemon, h *home.Home) error {
		all, err := d.Schedules.List(ctx, h)
		if err != nil {
			return err
		}
		list := mcpserver.Schedules(all)
		if err := mcpserver.AddReasons(ctx, h, list); err != nil {
			return err
		}
		if env.JSON {
			return cli.WriteList(env, "schedules", list)
		}
		env.PrintEmpty(len(list), "there are no schedules; add one to schedules: in the configuration")
		for i, s := range list {
			env.Printf("%-24s %-20s %-24s next %s%s\n", s.Name, s.When, s.Runs, schedulesTime(s.Next), lastRun(s))
			if all[i].Damaged != nil {
				env.Warn(all[i].Damaged.Error())
			}
		}
		return nil
	})
}

func schedulesTime(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return t.Format("2006-01-02 15:04:05 MST")
}

// lastRun describes the state and the last run of a schedule.
func lastRun(s mcpserver.Schedule) (text string) {
	if s.State != "active" {
		text = "; " + s.State
	}
	if s.Last != nil {
		text += fmt.Sprintf("; last %s: %s %s", schedulesTime(s.Last.Due), s.Last.Outcome, s.Last.Execution)
		if s.Last.Error != "" {
			text += " (" + cli.VisibleName(s.Last.Error) + ")"
		}
	}
	if s.Passed != nil {
		text += fmt.Sprintf("; %s: %s", schedulesTime(s.Passed.Due), s.Passed.Outcome)
		if s.Passed.Error != "" {
			text += " (" + s.Passed.Error + ")"
		}
	}
	if p := s.PutBack; p != nil {
		text += fmt.Sprintf("; the clock was put back by %s at %s", (time.Duration(p.By) * time.Second).String(), schedulesTime(p.At))
	}
	if s.Waiting > 0 {
		text += fmt.Sprintf("; %d waiting", s.Waiting)
	}
	return text
}

func runSchedulesPause(ctx context.Context, env *cli.Env, name string, paused bool) error {
	return cli.WithDaemonHome(ctx, env, func(d *daemon.Daemon, h *home.Home) error {
		if err := d.Schedules.Pause(ctx, h, name, paused); err != nil {
			return err
		}
		if env.JSON {
			return env.WriteJSON(map[string]any{"success": true, "name": name, "paused": paused})
		}
		return nil
	})
}

func runSchedulesRun(ctx context.Context, env *cli.Env, name string) error {
	return cli.WithDaemonHome(ctx, env, func(d *daemon.Daemon, h *home.Home) error {
		id, err := d.Schedules.Run(ctx, h, name)
		if err != nil {
			return err
		}
		hintDaemon(env, d)
		if env.JSON {
			return env.WriteJSON(map[string]any{"success": true, "name": name, "execution_id": id})
		}
		env.Printf("%s\n", id)
		return nil
	})
}

func runSchedulesDelete(ctx context.Context, env *cli.Env, name string) error {
	return cli.WithDaemonHome(ctx, env, func(d *daemon.Daemon, h *home.Home) error {
		if err := schedule.CheckName(name); err != nil {
			return err
		}
		if err := d.Schedules.Delete(ctx, h, name); err != nil {
			return err
		}
		if env.JSON {
			return env.WriteJSON(map[string]any{"success": true, "deleted": name})
		}
		return nil
	})
}
