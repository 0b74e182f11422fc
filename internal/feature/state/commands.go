package state

import (
	"context"
	"encoding/json"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/sandpiper-mcp/sandpiper/internal/cli"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
)

// commands returns the command state.
func commands(env *cli.Env) []*cobra.Command {
	c := cli.OfTenant(env, cli.Group("state", "List, read, save and delete the small JSON values that code saves by name",
		&cobra.Command{
			Use: "list", Short: "List saved states",
			Args: cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error { return runList(cmd.Context(), env) },
		},
		&cobra.Command{
			Use: "get NAME", Short: "Print a state as JSON",
			Args: cobra.ExactArgs(1),
			RunE: func(cmd *cobra.Command, args []string) error { return runGet(cmd.Context(), env, args[0]) },
		},
		setCommand(env),
		&cobra.Command{
			Use: "delete NAME...", Short: "Delete states",
			Args: cobra.MinimumNArgs(1),
			RunE: func(cmd *cobra.Command, args []string) error { return runDelete(cmd.Context(), env, args) },
		},
	))
	for _, sub := range c.Commands() {
		if sub.Name() != "list" {
			cli.SetArguments(env, sub, cli.Named(NameQuery))
		}
	}
	return []*cobra.Command{c}
}

func setCommand(env *cli.Env) *cobra.Command {
	var version int64
	c := &cobra.Command{
		Use: "set NAME JSON|-", Short: "Save a JSON value",
		Long: `Set saves a JSON value under a name and prints its version. With --version, only that
version is replaced; 0 means that there must be no value yet.`,
		Example: `  sandpiper state set cursor '{"page": 3}'
  jq .rows report.json | sandpiper state set rows -`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			d := Draft{Name: args[0]}
			if cmd.Flags().Changed("version") {
				d.Version = &version
			}
			return runSet(cmd.Context(), env, d, args[1])
		},
	}
	c.Flags().Int64Var(&version, "version", 0, "`NUMBER` of the version to replace")
	return c
}

func runList(ctx context.Context, env *cli.Env) error {
	return cli.WithHome(ctx, env, func(home *home.Home) error {
		all, err := Open(home).List(ctx)
		if err != nil {
			return err
		}
		if env.JSON {
			return cli.WriteList(env, "states", all)
		}
		env.PrintEmpty(len(all), "there are no states; save one with `sandpiper state set`, or save_state in code")
		for _, s := range all {
			env.Printf("%-32s %8d bytes  version %-6d %s\n", cli.VisibleName(s.Name), s.Size, s.Version, s.Updated.Local().
				Format(time.DateTime))
		}
		return nil
	})
}

func runGet(ctx context.Context, env *cli.Env, name string) error {
	return cli.WithHome(ctx, env, func(home *home.Home) error {
		found, err := Open(home).Get(ctx, name)
		if err != nil {
			return err
		}
		if env.JSON {
			return env.WriteJSON(found)
		}
		text := string(found.Value)
		if cli.IsTerminal(env.Stdout) {
			text = cli.Visible(text)
		}
		env.Printf("%s\n", text)
		return nil
	})
}

func runSet(ctx context.Context, env *cli.Env, d Draft, text string) error {
	d.Value = json.RawMessage(text)
	if text == "-" {
		var err error
		if d.Value, err = io.ReadAll(io.LimitReader(env.Stdin, MaxBytes+1)); err != nil {
			return err
		}
	}
	if err := d.Check(); err != nil {
		if quoted, _ := json.Marshal(text); text != "-" && len(text) < 60 && !json.Valid([]byte(text)) { // a string can be encoded
			err = fault.Wrap(fault.Invalid, err, "%s", fault.Message(err)).WithHint("write text in quotes: '%s'", quoted)
		}
		return err
	}
	return cli.WithHome(ctx, env, func(home *home.Home) error {
		version, err := Open(home).Put(ctx, d)
		if err != nil {
			return err
		}
		if env.JSON {
			return env.WriteJSON(map[string]any{"success": true, "version": version})
		}
		env.Printf("version %d\n", version)
		return nil
	})
}

func runDelete(ctx context.Context, env *cli.Env, names []string) error {
	return cli.WithHome(ctx, env, func(home *home.Home) error {
		for _, name := range names {
			if _, err := Open(home).Get(ctx, name); fault.KindOf(err) == fault.NotFound {
				return err
			}
			if _, err := Open(home).Put(ctx, Draft{Name: name, Value: json.RawMessage("null")}); err != nil {
				return err
			}
		}
		if env.JSON {
			return env.WriteJSON(map[string]any{"success": true, "deleted": len(names)})
		}
		return nil
	})
}
