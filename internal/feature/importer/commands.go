package importer

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sandpiper-mcp/sandpiper/internal/cli"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/importer/clientconfig"
)

// commands returns the command init.
func commands(env *cli.Env) []*cobra.Command {
	var o options
	c := &cobra.Command{
		Use:   "init",
		Short: "Import the MCP servers of other clients",
		Long: `Init finds the MCP servers in the configuration of Claude Code, Claude Desktop,
Cursor, VS Code, Codex, Gemini CLI, Windsurf, Zed, opencode and JetBrains Junie,
lists them, and writes them to sandpiper.yaml in your configuration directory. Servers in project files are
imported only with --here, to that project's sandpiper.yaml, which is read once
you trust it (sandpiper trust).

Secrets are not written: each is replaced by a variable, and init lists the
variables to set. Existing servers in sandpiper.yaml are kept. With --apply it also
adds Sandpiper to clients. The original of every changed file is saved beside it; --undo
restores it.`,
		Example: `  sandpiper init --dry-run
  sandpiper init
  sandpiper init --apply claude-code
  sandpiper init --apply cursor,codex --replace
  sandpiper init --undo`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			clients, err := thisEnv()
			if err != nil {
				return err
			}
			if o.undo {
				return runUndo(env, clients, o)
			}
			return run(cmd.Context(), env, o, clients)
		},
	}
	f := c.Flags()
	f.BoolVar(&o.here, "here", false, "write ./sandpiper.yaml, and import the servers in this project's files as well")
	f.BoolVar(&o.dry, "dry-run", false, "show the changes without writing")
	f.BoolVarP(&o.yes, "yes", "y", false, "do not ask for confirmation")
	f.StringSliceVar(&o.apply, "apply", nil, "add Sandpiper to `CLIENT,...`: claude-code, claude-desktop, cursor, vscode, codex, gemini, "+
		"windsurf, zed, opencode, junie, or all that are installed")
	f.BoolVar(&o.replace, "replace", false, "with --apply: remove the imported servers from the client")
	f.BoolVar(&o.envFile, "env-file", false, "write the values of variables to .env in the directory of sandpiper.yaml, with mode 0600")
	f.BoolVar(&o.undo, "undo", false, "undo all changes of init")
	c.GroupID = cli.ServersGroup
	return []*cobra.Command{c}
}

// thisEnv returns the environment of this process.
func thisEnv() (clientconfig.Env, error) {
	clients := clientconfig.Env{OS: runtime.GOOS, Lookup: os.LookupEnv}
	var err error
	if clients.Home, err = os.UserHomeDir(); err == nil {
		clients.Dir, err = os.Getwd()
	}
	if err != nil || !filepath.IsAbs(clients.Home) {
		return clients, fault.Wrap(fault.Invalid, err, "the home directory is unknown").WithHint("set HOME")
	}
	clients.Self, _ = os.Executable()
	if strings.Contains(filepath.ToSlash(clients.Self), "/go-build") {
		clients.Self = "" // go run removes it
	}
	return clients, nil
}

func run(ctx context.Context, env *cli.Env, o options, clients clientconfig.Env) error {
	if err := o.check(); err != nil {
		return err
	}
	ask := cli.IsTerminal(env.Stdin) && !o.yes && !env.JSON && !o.dry // otherwise nothing is written without --yes
	if len(o.apply) > 0 && !ask && !o.yes && !o.dry {
		return cli.Usagef("--apply changes files of other programs and needs confirmation, but there is no terminal; use --yes")
	}
	p, err := fullPlan(env, o, clients)
	if err != nil {
		return err
	}
	if !env.JSON {
		showPlan(env, p)
	}
	if !o.dry && !ask && !o.yes {
		return cli.Usagef("nothing was written, since there is no terminal to confirm it; run init with --yes")
	}
	if !o.dry {
		if err := apply(ctx, env, p, ask); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	if env.JSON {
		err = env.WriteJSON(p.json())
	} else {
		showNextSteps(env, p)
	}
	if err == nil && slices.ContainsFunc(p.clients, func(c target) bool { return c.err != nil }) {
		return cli.Exit(cli.ExitFailed)
	}
	return err
}
