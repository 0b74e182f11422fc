package skill

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sandpiper-mcp/sandpiper/internal/cli"
	"github.com/sandpiper-mcp/sandpiper/internal/daemon"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/home/skill"
)

type saveOptions struct {
	name        string
	code        cli.Code
	description string
	tags        []string
}

// commands returns the command skills.
func commands(env *cli.Env) []*cobra.Command {
	c := cli.OfTenant(env, cli.Group("skills", "Save, find, test and delete Python modules that code can import",
		&cobra.Command{
			Use: "list", Short: "List saved skills",
			Long: `List prints each saved skill with its description. A skill is stale when a tool that
it uses has changed since it was saved, and unavailable while the server of a tool is
disabled, missing or not connected; the reason is printed below it.`,
			Args: cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error { return runSearch(cmd.Context(), env, skill.Query{}) },
		},
		searchCommand(env),
		saveCommand(env),
		loadCommand(env),
		promoteCommand(env),
		testCommand(env),
		exportCommand(env),
		importCommand(env),
		&cobra.Command{
			Use: "delete NAME...", Short: "Delete skills with all their versions",
			Args: cobra.MinimumNArgs(1),
			RunE: func(cmd *cobra.Command, args []string) error { return runDelete(cmd.Context(), env, args) },
		},
	))
	for _, sub := range c.Commands() {
		switch sub.Name() {
		case "delete", "export", "load", "test":
			cli.SetArguments(env, sub, cli.Named(skill.NameQuery))
		case "import":
			cli.SetArguments(env, sub, cli.LocalDirs)
		case "save":
			cli.SetArguments(env, sub, cli.Named(skill.NameQuery), cli.LocalFiles)
		}
	}
	c.GroupID = cli.CodeGroup
	return []*cobra.Command{c}
}

func searchCommand(env *cli.Env) *cobra.Command {
	var q skill.Query
	c := &cobra.Command{
		Use: "search [QUERY...]", Short: "Find skills by their purpose and tags",
		Example: "  sandpiper skills search mean of a column --tag csv",
		RunE: func(cmd *cobra.Command, args []string) error {
			q.Text = strings.Join(args, " ")
			return runSearch(cmd.Context(), env, q)
		},
	}
	c.Flags().StringArrayVar(&q.Tags, "tag", nil, "only skills with this `TAG` (may be repeated)")
	c.Flags().IntVar(&q.Limit, "limit", 20, "maximum number of skills; 0 for all")
	return c
}

func loadCommand(env *cli.Env) *cobra.Command {
	var version int
	c := &cobra.Command{
		Use: "load NAME", Short: "Print a skill's code",
		Example: `  sandpiper skills load filter_high_risk > filter_high_risk.py
  sandpiper skills load filter_high_risk --version 2`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runLoad(cmd.Context(), env, args[0], version)
		},
	}
	c.Flags().IntVar(&version, "version", 0, "`NUMBER` of the version; 0 for the latest")
	return c
}

func saveCommand(env *cli.Env) *cobra.Command {
	var o saveOptions
	c := &cobra.Command{
		Use:   "save NAME [FILE|-] [-c CODE]",
		Short: "Save Python code as a skill",
		Long: `Save stores Python code from a file, from standard input or from -c under a name that
is a Python identifier. The code must compile. An existing skill is replaced; its
old versions are kept.`,
		Example: `  sandpiper skills save stats stats.py --description 'mean and median of a column' --tag csv
  sandpiper exec -c 'from skills.stats import mean; mean([1, 2])'`,
		Args: cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.name, o.code.Inline = args[0], cmd.Flags().Changed("code")
			if len(args) > 1 {
				o.code.File = args[1]
			}
			return runSave(cmd.Context(), env, o)
		},
	}
	c.Flags().StringVarP(&o.code.Text, "code", "c", "", "save `CODE`")
	c.Flags().StringVar(&o.description, "description", "", "purpose of the skill, in one sentence")
	c.Flags().StringArrayVar(&o.tags, "tag", nil, "keyword for search (may be repeated)")
	return c
}

func runSave(ctx context.Context, env *cli.Env, o saveOptions) error {
	code, err := o.code.Read(env)
	if err != nil {
		return err
	}
	draft := skill.Draft{Name: o.name, Code: code, Description: o.description, Tags: o.tags}
	if err := draft.Check(); err != nil {
		return err
	}
	d, err := cli.OpenDaemon(env, cli.Options{Quiet: true})
	if err != nil {
		return err
	}
	defer d.Close()
	home, err := cli.Acquire(ctx, env, d)
	if err != nil {
		return err
	}
	defer home.Release(context.WithoutCancel(ctx))
	if draft, err = check(ctx, d.Runner.Code, home, "", draft, nil); err != nil {
		return err
	}
	saved, err := home.Skills.Save(ctx, draft)
	if err != nil {
		return err
	}
	if env.JSON {
		return env.WriteJSON(map[string]any{"success": true, "message": skill.Saved(o.name, code)})
	}
	env.Printf("saved %s, version %d\n", saved.Name, saved.Version)
	return nil
}

func runSearch(ctx context.Context, env *cli.Env, q skill.Query) error {
	return cli.WithDaemonHome(ctx, env, func(d *daemon.Daemon, home *home.Home) error {
		found, err := home.Skills.Search(ctx, q)
		if err != nil {
			return err
		}
		for i := range found {
			d.Runner.Skills(home, "").Mark(ctx, &found[i])
		}
		if env.JSON {
			return cli.WriteList(env, "skills", found)
		}
		empty := "no skill was found; sandpiper skills list lists all"
		if q.Text == "" && len(q.Tags) == 0 {
			empty = "there are no skills; save one with sandpiper skills save"
		}
		env.PrintEmpty(len(found), "%s", empty)
		for _, m := range found {
			env.Printf("%s\n", strings.TrimRight(fmt.Sprintf("%-24s %s", cli.VisibleName(m.Name), cli.VisibleName(m.Description)), " "))
			for _, why := range m.Unavailable {
				env.Printf("%-24s unavailable: %s\n", "", cli.VisibleName(cli.WithFlagNames(why)))
			}
			for _, why := range m.Stale {
				env.Printf("%-24s stale: %s\n", "", cli.VisibleName(why))
			}
		}
		return nil
	})
}

func runLoad(ctx context.Context, env *cli.Env, name string, version int) error {
	return cli.WithDaemonHome(ctx, env, func(d *daemon.Daemon, home *home.Home) error {
		found, err := home.Skills.Find(ctx, name, version)
		if err != nil {
			return err
		}
		d.Runner.Skills(home, "").Mark(ctx, &found.Metadata)
		if env.JSON {
			return env.WriteJSON(found)
		}
		code := strings.TrimSuffix(found.Code, "\n")
		if cli.IsTerminal(env.Stdout) {
			code = cli.Visible(code)
		}
		env.Printf("%s\n", code)
		return nil
	})
}

func runDelete(ctx context.Context, env *cli.Env, names []string) error {
	return cli.WithHome(ctx, env, func(home *home.Home) error {
		for _, name := range names {
			if err := remove(ctx, home, name); err != nil {
				return err
			}
		}
		if env.JSON {
			return env.WriteJSON(map[string]any{"success": true, "message": "Deleted " + cli.Count(len(names), "skill")})
		}
		return nil
	})
}
