package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/sandpiper-mcp/sandpiper/internal/audit"
	"github.com/sandpiper-mcp/sandpiper/internal/daemon"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/vault"
)

// vaultCommands are about what is kept behind tokens.
func (a *app) vaultCommands() []*cobra.Command {
	var sure bool
	rotate := &cobra.Command{
		Use: "rotate", Short: "Seal a vault with a new key",
		Long: "Rotate gives a tenant's vault a new data key and seals all values with it. Tokens stay as they are, and others may use the vault meanwhile.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.inVault(cmd.Context(), "rotated", func(v *vault.Vault, _ string) (string, error) {
				return "sealed with a new key", v.Rotate(cmd.Context())
			})
		},
	}
	rewrap := &cobra.Command{
		Use: "rewrap KEY", Short: "Wrap the keys of a vault with another master key",
		Long: `Rewrap opens a tenant's keys with the master key of the configuration and wraps
them with KEY, which is written as pii.key is. Do it for each tenant, then set
pii.key to KEY.`,
		Example: "  sandpiper pii rewrap keyring:sandpiper/master",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.inVault(cmd.Context(), "rewrapped", func(v *vault.Vault, dataDir string) (string, error) {
				to, err := vault.OpenMaster(cmd.Context(), args[0], dataDir)
				if err != nil {
					return "", err
				}
				return "wrapped with the other key; set pii.key to it", v.Rewrap(cmd.Context(), to)
			})
		},
	}
	shred := &cobra.Command{
		Use: "shred", Short: "Forget for ever what tokens stand for",
		Long: "Shred deletes the keys of a tenant's vault and all that they sealed. No token that was shown before stands for anything afterwards.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !sure {
				return fault.New(fault.Invalid, "nothing was shredded: this cannot be undone").WithHint("say --yes if that is what you want")
			}
			return a.inVault(cmd.Context(), "shredded", func(v *vault.Vault, _ string) (string, error) {
				return "shredded", v.Shred(cmd.Context())
			})
		},
	}
	shred.Flags().BoolVar(&sure, "yes", false, "do it")
	export := &cobra.Command{
		Use: "export", Short: "Print what tokens stand for, in the clear",
		Long: `Export prints all values of a tenant's vault: a JSON object a line, with token,
type, value, and what else is known of it.`,
		Example: "  sandpiper pii export --tenant acme > acme.jsonl",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			out := bufio.NewWriter(a.stdout)
			return a.inVault(cmd.Context(), "exported", func(v *vault.Vault, _ string) (string, error) {
				return "", errors.Join(v.Export(cmd.Context(), out), out.Flush())
			})
		},
	}
	return []*cobra.Command{a.ofTenant(rotate), a.ofTenant(rewrap), a.ofTenant(shred), a.ofTenant(export)}
}

// inVault calls use with the vault of a tenant, and says what it did. That is on
// record, and whether it failed.
func (a *app) inVault(ctx context.Context, outcome string, use func(v *vault.Vault, dataDir string) (string, error)) error {
	return a.homeOf(ctx, func(d *daemon.Daemon, home *home.Home) error {
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
		case a.json:
			return a.writeJSON(map[string]any{"success": true, "message": fmt.Sprintf("The vault of %s is %s", id, did)})
		}
		a.printf("The vault of %s is %s.\n", id, did)
		return nil
	})
}
