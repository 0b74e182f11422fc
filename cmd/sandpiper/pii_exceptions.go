package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sandpiper-mcp/sandpiper/internal/audit"
	"github.com/sandpiper-mcp/sandpiper/internal/cli"
	"github.com/sandpiper-mcp/sandpiper/internal/daemon"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/vault"
)

// exceptionCommands returns the commands for a tenant's exceptions.
func exceptionCommands(env *cli.Env) []*cobra.Command {
	var e vault.Exception
	allow := &cobra.Command{
		Use: "allow [VALUE|-]", Short: "Show models a value that is not private",
		Long: `Allow adds an exception for values that are detected although they are not private: for
VALUE (or standard input with -), for a type, or for the answers of a tool or their
values under a key. All that is given must match. A running daemon applies it within a
second. Only a keyed hash of VALUE is stored.

An exception with --tool or --key applies to answers of tools. If a value also occurs
elsewhere, it stays private.`,
		Example: "  sandpiper pii allow support@example.com\n  sandpiper pii allow --type IP_ADDRESS --tool \"packages.*\"\n  sandpiper " +
			"pii allow --key build_number",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return runPIIAllow(cmd.Context(), env, e, args) },
	}
	allow.Flags().StringVar((*string)(&e.Type), "type", "", "only values of this `TYPE`")
	allow.Flags().StringVar(&e.Tool, "tool", "", "only answers of this tool: `SERVER.TOOL`, where * matches any letters")
	allow.Flags().StringVar(&e.Key, "key", "", "only values under this `KEY`")
	return []*cobra.Command{cli.OfTenant(env, allow),
		cli.OfTenant(env, &cobra.Command{
			Use: "allowed", Short: "List the exceptions",
			Long: "Allowed lists the exceptions that were added with allow. Those of the configuration are in pii.exceptions.",
			Args: cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error { return runPIIAllowed(cmd.Context(), env) },
		}),
		cli.OfTenant(env, &cobra.Command{
			Use: "disallow ID...", Short: "Remove exceptions",
			Long:    "Disallow removes exceptions; allowed lists their ids. A running daemon applies it within a second.",
			Example: "  sandpiper pii disallow k7q2m9x4",
			Args:    cobra.MinimumNArgs(1),
			RunE:    func(cmd *cobra.Command, args []string) error { return runPIIDisallow(cmd.Context(), env, args) },
		}),
	}
}

func runPIIAllow(ctx context.Context, env *cli.Env, e vault.Exception, args []string) error {
	value := ""
	if len(args) > 0 {
		text, err := argumentOrStdin(env, args)
		if err != nil {
			return err
		}
		if value = strings.TrimSpace(text); value == "" {
			return fault.New(fault.Invalid, "the value is empty")
		}
	}
	rule := redact.Exception{Tool: e.Tool, Key: e.Key, Value: value}
	if e.Type != "" {
		rule.Types = []detect.Type{e.Type}
	}
	if err := rule.Validate(); err != nil {
		return fault.Wrap(fault.Invalid, err, "the exception cannot be added: %s", fault.Message(err)).WithHint("%s", fault.Hint(err))
	}
	cfg, err := cli.LoadConfig(env, nil)
	if err != nil {
		return err
	}
	if known := cfg.PII.Types(); e.Type != "" && !slices.Contains(known, string(e.Type)) {
		return fault.New(fault.Invalid, "there is no type %.40q", e.Type).WithHint("types are %s", strings.Join(known, ", "))
	}
	return changeExceptions(ctx, env, "allowed", func(v *vault.Vault) error {
		e, err = v.Exceptions.Allow(ctx, e, value)
		if err != nil {
			return err
		}
		if env.JSON {
			return env.WriteJSON(exceptionOf(e))
		}
		env.Printf("Exception %s: %s.\n", e.ID, describe(e))
		return nil
	})
}

// changeExceptions calls change with the vault of the tenant and records the outcome in the
// audit log, without the value.
func changeExceptions(ctx context.Context, env *cli.Env, outcome string, change func(*vault.Vault) error) error {
	return cli.WithDaemonHome(ctx, env, func(d *daemon.Daemon, home *home.Home) error {
		line := audit.Line{Kind: audit.Configuration, Tenant: home.ID(), Section: "exceptions", Outcome: outcome}
		err := change(home.Vault)
		if err != nil {
			line.Outcome = "not_" + outcome
		}
		return errors.Join(err, d.Record(ctx, line, "the exception is "+outcome))
	})
}

func runPIIAllowed(ctx context.Context, env *cli.Env) error {
	return cli.WithHome(ctx, env, func(h *home.Home) error {
		stored, err := h.Vault.Exceptions.List(ctx)
		if err != nil {
			return err
		}
		all := []exceptionJSON{}
		for _, e := range stored {
			all = append(all, exceptionOf(e))
			if !env.JSON {
				env.Printf("%s  %s  %s\n", e.ID, e.CreatedAt.UTC().Format(time.DateOnly), cli.Visible(describe(e)))
			}
		}
		if env.JSON {
			return env.WriteJSON(map[string]any{"exceptions": all})
		}
		env.PrintEmpty(len(all), "there are no exceptions; add one with `sandpiper pii allow`")
		return nil
	})
}

func runPIIDisallow(ctx context.Context, env *cli.Env, ids []string) error {
	return changeExceptions(ctx, env, "disallowed", func(v *vault.Vault) error {
		for _, id := range ids {
			if err := v.Exceptions.Disallow(ctx, id); err != nil {
				return err
			}
		}
		if env.JSON {
			return env.WriteJSON(map[string]any{"success": true})
		}
		return nil
	})
}

// exceptionJSON is an exception in JSON.
type exceptionJSON struct {
	ID       string      `json:"id"`
	Type     detect.Type `json:"type,omitempty"`
	Tool     string      `json:"tool,omitempty"`
	Key      string      `json:"key,omitempty"`
	ForValue bool        `json:"for_value"`
	Created  time.Time   `json:"created_at"`
}

func exceptionOf(e vault.Exception) exceptionJSON {
	return exceptionJSON{e.ID, e.Type, e.Tool, e.Key, e.ForValue, e.CreatedAt.UTC().Truncate(time.Second)}
}

// describe states what an exception applies to.
func describe(e vault.Exception) string {
	what := "every value"
	if e.ForValue {
		what = "one value"
	}
	if e.Type != "" {
		what += fmt.Sprintf(" of type %s", e.Type)
	}
	if e.Key != "" {
		what += fmt.Sprintf(" under the key %s", e.Key)
	}
	if e.Tool != "" {
		what += fmt.Sprintf(" in answers of %s", e.Tool)
	} else if e.Key != "" {
		what += " in answers of tools"
	}
	return what
}
