package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/sandpiper-mcp/sandpiper/internal/audit"
	"github.com/sandpiper-mcp/sandpiper/internal/cli"
	"github.com/sandpiper-mcp/sandpiper/internal/daemon"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/vault"
)

// vaultCommands returns the commands for the values and keys of a vault.
func vaultCommands(env *cli.Env) []*cobra.Command {
	var sure bool
	rotate := &cobra.Command{
		Use: "rotate", Short: "Encrypt a vault with a new key",
		Long: "Rotate gives a tenant's vault a new data key and encrypts all values with it, while it is in use. Tokens do not change.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withVault(cmd.Context(), env, "rotated", func(v *vault.Vault, _ string) (string, error) {
				return "encrypted with a new key", v.Rotate(cmd.Context())
			})
		},
	}
	rewrap := &cobra.Command{
		Use: "rewrap KEY", Short: "Wrap the keys of a vault with another master key",
		Long: `Rewrap decrypts a tenant's keys with the master key of the configuration and encrypts
them with KEY, which has the format of pii.key, or with the key that a command prints: --,
the word command, and the program with its arguments. Do this for each tenant, then set
pii.key to KEY, or pii.key_command to the program and its arguments.`,
		Example: `  sandpiper pii rewrap keyring:sandpiper/master
  sandpiper pii rewrap -- command vault kv get -field=key secret/sandpiper`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return withVault(cmd.Context(), env, "rewrapped", func(v *vault.Vault, dataDir string) (string, error) {
				to, set, err := masterOf(args, dataDir, slog.New(slog.NewTextHandler(env.Stderr, nil)))
				if err != nil {
					return "", err
				}
				return "wrapped with the other key; set " + set, v.Rewrap(cmd.Context(), to)
			})
		},
	}
	shred := &cobra.Command{
		Use: "shred", Short: "Delete the values of all tokens permanently",
		Long: "Shred deletes the keys of a tenant's vault and all encrypted values. Existing tokens can no longer be restored.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !sure {
				return fault.New(fault.Invalid, "nothing was shredded: this cannot be undone").WithHint("confirm with --yes")
			}
			return withVault(cmd.Context(), env, "shredded", func(v *vault.Vault, _ string) (string, error) {
				return "shredded", v.Shred(cmd.Context())
			})
		},
	}
	shred.Flags().BoolVar(&sure, "yes", false, "confirm")
	export := &cobra.Command{
		Use: "export", Short: "Print all tokens with their values in plain text",
		Long: `Export prints all values of a tenant's vault: one JSON object per line, with token,
type, value and metadata.`,
		Example: "  sandpiper pii export --tenant acme > acme.jsonl",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			out := bufio.NewWriter(env.Stdout)
			return withVault(cmd.Context(), env, "exported", func(v *vault.Vault, _ string) (string, error) {
				return "", errors.Join(v.Export(cmd.Context(), out), out.Flush())
			})
		},
	}
	return []*cobra.Command{cli.OfTenant(env, rotate), cli.OfTenant(env, rewrap), cli.OfTenant(env, shred), cli.OfTenant(env, export)}
}

// masterOf parses the arguments of rewrap. It returns the master key, and the setting for it.
func masterOf(args []string, dataDir string, log *slog.Logger) (m vault.Master, set string, err error) {
	command := args[0] == "command"
	switch {
	case command && len(args) > 1 && args[1] != "":
		return vault.NewCommandMaster(args[1:], log), "pii.key_command to its command", nil
	case command || len(args) > 1:
		return nil, "", fault.New(fault.Invalid, "rewrap needs one master key").
			WithHint("write `sandpiper pii rewrap KEY`, or `sandpiper pii rewrap -- command PROGRAM ARGUMENT…`")
	}
	m, err = vault.OpenMaster(context.Background(), args[0], dataDir)
	return m, "pii.key to it", err
}

// withVault calls use with the vault of the tenant, records the outcome in the audit log,
// and prints the result of use.
func withVault(ctx context.Context, env *cli.Env, outcome string, use func(v *vault.Vault, dataDir string) (string, error)) error {
	return cli.WithDaemonHome(ctx, env, func(d *daemon.Daemon, home *home.Home) error {
		id := home.ID()
		line := audit.Line{Kind: audit.Configuration, Tenant: id, Section: "vault", Outcome: outcome}
		did, err := use(home.Vault, d.DataDir())
		if err != nil {
			line.Outcome = "not_" + outcome
		}
		err = errors.Join(err, d.Record(ctx, line, "the vault is "+outcome))
		switch {
		case err != nil || did == "":
			return err
		case env.JSON:
			return env.WriteJSON(map[string]any{"success": true, "message": fmt.Sprintf("The vault of %s is %s", id, did)})
		}
		env.Printf("The vault of %s is %s.\n", id, did)
		return nil
	})
}
