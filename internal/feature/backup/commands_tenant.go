package backup

import (
	"cmp"
	"context"
	"fmt"
	"io"

	"filippo.io/age"
	"github.com/spf13/cobra"

	"github.com/sandpiper-mcp/sandpiper/internal/cli"
	"github.com/sandpiper-mcp/sandpiper/internal/daemon"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

// importOptions are the flags of tenant import.
type importOptions struct {
	keys
	as, tier string
}

func exportCommand(env *cli.Env) *cobra.Command {
	var out string
	var k keys
	c := &cobra.Command{
		Use: "export ID --out FILE", Short: "Write all data of a suspended tenant to one encrypted file",
		Long: `Export writes the files, skills, sessions, records, suspended approvals, tokens with their values
and usage of a tenant to one file in the format of age (age-encryption.org), for tenant import on
this or another machine. The file is encrypted to recipients or with a passphrase. API keys, the
tier, and the audit log are not part of it.

The tenant must be suspended, so that the file contains one state of its data. FILE must not
exist; it is complete when it gets its name.`,
		Example: "  sandpiper tenant suspend customer_A\n  sandpiper tenant export customer_A --out customer_A.age --recipient age1...",
		Args:    cobra.ExactArgs(1),
		RunE:    func(cmd *cobra.Command, args []string) error { return runExport(cmd.Context(), env, args[0], out, k) },
	}
	c.Flags().StringVar(&out, "out", "", "`FILE` to create")
	c.Flags().StringArrayVar(&k.recipients, "recipient", nil, "encrypt to an age `RECIPIENT`, age1...; may be repeated")
	c.Flags().StringVar(&k.passphrase, "passphrase-file", "", "encrypt with the passphrase in the first line of `FILE`")
	return c
}

func importCommand(env *cli.Env) *cobra.Command {
	var o importOptions
	c := &cobra.Command{
		Use: "import FILE", Short: "Create a tenant from an exported file",
		Long: `Import creates a tenant with the data in a file of tenant export. The whole file is verified
first; nothing is created from one that is truncated, altered or for another recipient. Values and
records are encrypted with the keys of this data directory, and tokens keep their values. The quota
of this configuration applies. A tenant that exists is never changed.

A file that was encrypted to a recipient does not prove who wrote it, because recipients are
public: import only files that you received from somebody you trust.`,
		Example: "  sandpiper tenant import customer_A.age --identity key.txt\n  sandpiper tenant import customer_A.age --as customer_B",
		Args:    cobra.ExactArgs(1),
		RunE:    func(cmd *cobra.Command, args []string) error { return runImport(cmd.Context(), env, args[0], o) },
	}
	c.Flags().StringVar(&o.as, "as", "", "create tenant `ID` instead of the exported one")
	c.Flags().StringVar(&o.identity, "identity", "", "decrypt with the age identities in `FILE`")
	c.Flags().StringVar(&o.passphrase, "passphrase-file", "", "decrypt with the passphrase in the first line of `FILE`")
	c.Flags().StringVar(&o.tier, "tier", "", "its tier, one of tiers: in the configuration")
	return c
}

func runExport(ctx context.Context, env *cli.Env, uid, out string, k keys) error {
	id, err := tenant.ParseStored(uid)
	if err != nil {
		return err
	}
	if out == "" {
		return cli.Usagef("tenant export needs --out FILE")
	}
	return cli.WithDaemon(env, func(d *daemon.Daemon) error {
		_, err := d.Tenants.Find(id) // before asking for a passphrase
		if fault.KindOf(err) == fault.NotFound {
			err = cmp.Or(d.CheckTenant(id), err) // with similar ids
		}
		if err != nil {
			return err
		}
		recipients, err := readRecipients(env, k)
		if err != nil {
			return err
		}
		done := home.Transferred{Tenant: id}
		stop := env.Working("exporting")
		err = createFile(out, func(w io.Writer) error {
			encrypted, err := age.Encrypt(w, recipients...)
			if err != nil {
				return err
			}
			if done, err = d.Tenants.Export(ctx, id, encrypted); err != nil {
				return err
			}
			return encrypted.Close()
		})
		stop()
		return reportTransfer(ctx, env, d, "exported", done, err)
	})
}

func runImport(ctx context.Context, env *cli.Env, file string, o importOptions) (err error) {
	var as tenant.ID
	if o.as != "" {
		if as, err = tenant.Parse(o.as); err != nil {
			return err
		}
	}
	f, err := cli.OpenInput(file)
	if err != nil {
		return cli.InputFault("open the export", err)
	}
	defer f.Close()
	return cli.WithDaemon(env, func(d *daemon.Daemon) error {
		if err := d.Tiers.Check(o.tier); err != nil {
			return err
		}
		identities, err := readIdentities(env, o.keys)
		if err != nil {
			return err
		}
		plain, err := age.Decrypt(f, identities...)
		if err != nil {
			return decryptFault(file, "tenant export", err)
		}
		stop := env.Working("importing")
		done, err := d.Tenants.Import(ctx, plain, as)
		stop()
		if err == nil && o.tier != "" {
			err = d.Tiers.Set(done.Tenant, o.tier)
		}
		return reportTransfer(ctx, env, d, "imported", done, err)
	})
}

// reportTransfer records the outcome in the audit log and prints it.
func reportTransfer(ctx context.Context, env *cli.Env, d *daemon.Daemon, outcome string, done home.Transferred, err error) error {
	if err := record(ctx, d, "tenant", outcome, done.Tenant, err); err != nil {
		return err
	}
	if done.Skipped > 0 {
		env.Warn(fmt.Sprintf("%d entries of the workspace are not files, links or directories, or cannot be read; "+
			"they are not part of the export", done.Skipped))
	}
	if done.Damaged > 0 {
		env.Warn(fmt.Sprintf("%d encrypted records are damaged and cannot be read, here and in the copy", done.Damaged))
	}
	if env.JSON {
		return env.WriteJSON(map[string]any{
			"success": true,
			"tenant":  done.Tenant,
			"files":   done.Files,
			"bytes":   done.Bytes,
			"skipped": done.Skipped,
			"damaged": done.Damaged,
		})
	}
	env.Printf("Tenant %s is %s: %s with %s.\n",
		cli.VisibleName(done.Tenant.String()), outcome, cli.Count(done.Files, "file"), cli.Count(done.Bytes, "byte"))
	return nil
}
