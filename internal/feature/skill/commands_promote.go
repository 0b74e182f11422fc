package skill

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sandpiper-mcp/sandpiper/internal/cli"
	"github.com/sandpiper-mcp/sandpiper/internal/daemon"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/home/recent"
	"github.com/sandpiper-mcp/sandpiper/internal/home/session"
	"github.com/sandpiper-mcp/sandpiper/internal/home/skill"
)

type promoteOptions struct {
	source string
	draft  skill.Draft
	print  bool
}

func promoteCommand(env *cli.Env) *cobra.Command {
	var o promoteOptions
	c := &cobra.Command{
		Use:   "promote [EXECUTION|SESSION/TASK --name NAME]",
		Short: "Make a skill of the code of an execution",
		Long: `Promote makes a skill of the code of a successful execution of the last 24 hours, or of
a task of a session. The skill is a function with the name of the skill. It returns
what the execution returned. Names that the code uses and does not define, such as
context_vars, become its parameters. Code that defines a function of that name is
saved with its definitions and imports, and without the statements that only ran.

Without arguments, promote lists the executions whose code is stored.`,
		Example: `  sandpiper skills promote
  sandpiper skills promote exec_4k7q2m9x4zab6cdef2 --name high_risk --print
  sandpiper skills promote report/task_003 --name high_risk --description 'rows of high risk'`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return runRecent(cmd.Context(), env)
			}
			if o.source = args[0]; o.draft.Name == "" {
				return cli.Usagef("promote %s needs --name NAME, the name of the new skill", args[0])
			}
			return runPromote(cmd.Context(), env, o)
		},
	}
	c.Flags().StringVar(&o.draft.Name, "name", "", "`NAME` of the skill")
	c.Flags().StringVar(&o.draft.Description, "description", "", "purpose of the skill, in one sentence")
	c.Flags().StringArrayVar(&o.draft.Tags, "tag", nil, "keyword for search (may be repeated)")
	c.Flags().BoolVar(&o.print, "print", false, "print the code and save nothing")
	return c
}

// recentExecution is an execution that can be promoted.
type recentExecution struct {
	Execution string    `json:"execution_id"`
	Session   string    `json:"session_id,omitempty"`
	Ended     time.Time `json:"ended"`
	Code      string    `json:"code"`
}

func runRecent(ctx context.Context, env *cli.Env) error {
	return cli.WithHome(ctx, env, func(home *home.Home) error {
		stored, err := home.Recent.List(ctx)
		if err != nil {
			return err
		}
		all := []recentExecution{}
		for _, c := range stored {
			all = append(all, recentExecution{c.Execution, c.Session, c.Ended, c.Code})
		}
		if env.JSON {
			return cli.WriteList(env, "executions", all)
		}
		env.PrintEmpty(len(all), "no execution of the last 24 hours can become a skill; run code with `sandpiper exec` first")
		for _, x := range all {
			env.Printf("%s  %s  %s\n", x.Execution, x.Ended.Local().Format(time.DateTime), cli.VisibleName(firstLine(x.Code)))
		}
		return nil
	})
}

// firstLine returns the first line of code that is not empty, shortened.
func firstLine(code string) string {
	const most = 60
	line, more, _ := strings.Cut(strings.TrimSpace(code), "\n")
	if runes := []rune(line); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	if more != "" {
		line += " …"
	}
	return line
}

func runPromote(ctx context.Context, env *cli.Env, o promoteOptions) error {
	return cli.WithWarmHome(ctx, env, nil, func(d *daemon.Daemon, home *home.Home) error {
		code, err := findCode(ctx, home, o.source)
		if err != nil {
			return err
		}
		made, err := promote(ctx, d.Runner.Code, home, code, o.draft)
		if err != nil {
			return err
		}
		if !o.print {
			if _, err := home.Skills.Save(ctx, made.Draft); err != nil {
				return err
			}
		}
		if env.JSON {
			return env.WriteJSON(map[string]any{"success": true, "saved": !o.print, "name": made.Name, "code": made.Code,
				"parameters": append([]string{}, made.Parameters...), "tools": made.Tools})
		}
		if o.print {
			env.Printf("%s\n", strings.TrimSuffix(made.Code, "\n"))
			return nil
		}
		env.Printf("saved %s(%s)\n", made.Name, strings.Join(made.Parameters, ", "))
		return nil
	})
}

// findCode returns the code of an execution, or of a task of a session: SESSION/TASK.
func findCode(ctx context.Context, home *home.Home, source string) (recent.Code, error) {
	id, task, ok := strings.Cut(source, "/")
	if !ok {
		return home.Recent.Find(ctx, source)
	}
	s, err := home.Sessions.Find(ctx, id)
	if err != nil {
		return recent.Code{}, err
	}
	i := slices.IndexFunc(s.Tasks, func(t session.Task) bool { return t.ID == task })
	if i < 0 {
		return recent.Code{}, fault.New(fault.NotFound, "session %q has no task %.60q", id, task).
			WithHint("`sandpiper session show %s` lists its tasks", id)
	}
	if why, failed := strings.CutPrefix(s.Tasks[i].Result, "error: "); failed {
		return recent.Code{}, fault.New(fault.Invalid, "task %q of session %q failed: %.200s", task, id, why).
			WithHint("only a successful task can be promoted")
	}
	return recent.Code{Session: id, Code: s.Tasks[i].Code}, nil
}
