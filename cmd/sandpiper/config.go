package main

import (
	"context"
	"fmt"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/sandpiper-mcp/sandpiper/internal/cli"
	"github.com/sandpiper-mcp/sandpiper/internal/config"
	"github.com/sandpiper-mcp/sandpiper/internal/daemon"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

func configCommand(env *cli.Env) *cobra.Command {
	return cli.Group("config", "Check and show the configuration",
		&cobra.Command{
			Use: "check", Short: "Check the configuration",
			Long: `Check reads the configuration from all sources and compiles it as serve does: policy,
guardrails, hooks, privacy, schedules, servers, models and certificates. It reports
errors and warnings, and starts nothing. If the data directory exists, it warns of
schedules whose tenant, skill or workflow is not there, and of policy rules that match
no tool of the servers that have listed their tools before.`,
			Args: cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error { return runConfigCheck(cmd.Context(), env) },
		},
		&cobra.Command{
			Use: "show", Short: "Show the settings and where each is set",
			Long: `Show prints the keys that are set, their values and the source of each: a line of a
file, a variable or a flag. Other keys have their defaults. Secrets are hidden.`,
			Args: cobra.NoArgs,
			RunE: func(*cobra.Command, []string) error { return runConfigShow(env) },
		},
		&cobra.Command{
			Use: "schema", Short: "Print the JSON Schema of sandpiper.yaml",
			Long: `Schema prints the JSON Schema of sandpiper.yaml, for completion in an editor. Editors
with the YAML language server, such as VS Code with its YAML extension, read it from a
file that the first line names. init, servers add and packages add write both when
they create a configuration file:

  # yaml-language-server: $schema=./sandpiper.schema.json`,
			Example: `  sandpiper config schema >sandpiper.schema.json`,
			Args:    cobra.NoArgs,
			RunE: func(*cobra.Command, []string) error {
				text, err := config.JSONSchema(daemon.Sections(env.Features))
				if err == nil {
					_, err = fmt.Fprintf(env.Stdout, "%s\n", text)
				}
				return err
			},
		})
}

func runConfigCheck(ctx context.Context, env *cli.Env) error {
	cfg, err := cli.LoadConfig(env, nil)
	if err != nil {
		return err
	}
	warnings, err := daemon.Check(cfg, env.Features)
	if err != nil {
		return err
	}
	for _, w := range checkData(ctx, env, *cfg) {
		if !slices.Contains(warnings, w) {
			warnings = append(warnings, w)
		}
	}
	if env.JSON {
		return env.WriteJSON(map[string]any{"success": true, "files": append([]string{}, cfg.Files...),
			"warnings": append([]string{}, warnings...)})
	}
	for _, w := range warnings {
		env.Warn(w)
	}
	if len(cfg.Files) == 0 {
		env.Printf("There is no configuration file; the defaults are in force.\n")
	}
	for _, file := range cfg.Files {
		env.PrintDone("%s is valid", file)
	}
	return nil
}

// checkData returns findings about the policy for the tools that are known, and errors of features about the
// data of tenants, if there is a data directory.
func checkData(ctx context.Context, env *cli.Env, cfg config.Config) (warnings []string) {
	if _, err := os.Stat(cfg.DataDir); err != nil {
		return nil
	}
	d, err := daemon.New(daemon.Config{Config: cfg, Version: env.Version, Features: env.Features})
	if err != nil {
		return []string{"policy and features were not checked: the data directory cannot be opened: " + fault.Sentence(err)}
	}
	defer d.Close()
	for _, f := range d.Findings() {
		warnings = append(warnings, f.String())
	}
	for _, err := range daemon.Wrong(ctx, d) {
		warnings = append(warnings, fault.Sentence(err))
	}
	return warnings
}

func runConfigShow(env *cli.Env) error {
	cfg, err := cli.LoadConfig(env, nil)
	if err != nil {
		return err
	}
	if env.JSON {
		return env.WriteJSON(map[string]any{"files": append([]string{}, cfg.Files...),
			"settings": append([]config.Setting{}, cfg.Given...)})
	}
	key, value := 0, 0
	for _, s := range cfg.Given {
		key, value = max(key, len(s.Key)), max(value, min(40, len([]rune(s.Value))))
	}
	for _, s := range cfg.Given {
		env.Printf("%-*s  %-*s  %s\n", key, s.Key, value, cli.VisibleName(s.Value), cli.StyleFor(env.Stdout).Dim(cli.VisibleName(s.From)))
	}
	if len(cfg.Given) == 0 {
		env.Printf("Nothing is set: all keys have their defaults.\n")
	}
	return nil
}
