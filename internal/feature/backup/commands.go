package backup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"

	"filippo.io/age"
	"github.com/spf13/cobra"

	"github.com/sandpiper-mcp/sandpiper/internal/audit"
	"github.com/sandpiper-mcp/sandpiper/internal/cli"
	"github.com/sandpiper-mcp/sandpiper/internal/daemon"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

// commands returns the commands of the program, and those that tenant gets.
func commands(env *cli.Env) []*cobra.Command {
	export, add := exportCommand(env), importCommand(env)
	cli.SetArguments(env, export, cli.TenantNames)
	all := []*cobra.Command{backupCommand(env), restoreCommand(env)}
	for _, c := range append(all, add) {
		cli.SetArguments(env, c, cli.LocalFiles)
	}
	return append(all, cli.Group("tenant", "", export, add))
}

// of returns the Backups of a daemon.
func of(d *daemon.Daemon) *Backups { return daemon.Started[*Backups](d) }

// record writes the outcome of a command to the audit log. section is what it is of.
func record(ctx context.Context, d *daemon.Daemon, section, outcome string, id tenant.ID, err error) error {
	line := audit.Line{Kind: audit.Configuration, Tenant: id, Section: section, Outcome: outcome}
	if err != nil {
		line.Outcome = "not_" + outcome
	}
	return errors.Join(err, d.Record(context.WithoutCancel(ctx), line, "the "+section+" is "+outcome))
}

func backupCommand(env *cli.Env) *cobra.Command {
	var k keys
	c := &cobra.Command{
		Use: "backup FILE", Short: "Write all data of the data directory to one file, while it is in use",
		Long: `Backup writes the data of all tenants, the API keys, logins, trusted tools and the audit
log to FILE, for restore. Daemons and commands may use the data meanwhile. Each database is
written as of one moment, and the files of a workspace after it.

FILE must not exist; it gets its name when it is complete, and has mode 0600. It never contains
the master key (the file key in the data directory, or that of pii.key or pii.key_command) or keys of
certificates: keep the master key elsewhere. Files of workspaces and skills are not encrypted in it,
unless --recipient or --passphrase-file encrypts the whole file in the format of age
(age-encryption.org).`,
		Example: `  sandpiper backup /backup/sandpiper-2026-11-23.tar
  sandpiper backup /backup/sandpiper-2026-11-23.tar.age --recipient age1...`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return runBackup(cmd.Context(), env, args[0], k) },
	}
	c.Flags().StringArrayVar(&k.recipients, "recipient", nil, "encrypt to an age `RECIPIENT`, age1...; may be repeated")
	c.Flags().StringVar(&k.passphrase, "passphrase-file", "", "encrypt with the passphrase in the first line of `FILE`")
	return c
}

func runBackup(ctx context.Context, env *cli.Env, file string, k keys) error {
	var recipients []age.Recipient
	if len(k.recipients) > 0 || k.passphrase != "" {
		var err error
		if recipients, err = readRecipients(env, k); err != nil {
			return err
		}
	}
	return cli.WithDaemon(env, func(d *daemon.Daemon) error {
		if in, err := of(d).Contains(file); err != nil || in {
			if err == nil {
				err = fault.New(fault.Invalid, "%s is in the data directory, which it is a backup of", file).
					WithHint("give a name on another disk")
			}
			return err
		}
		var b Backup
		done := env.Working("writing the backup")
		err := createFile(file, func(w io.Writer) (err error) {
			if len(recipients) == 0 {
				b, err = of(d).Write(ctx, w, env.Version)
				return err
			}
			encrypted, err := age.Encrypt(w, recipients...)
			if err != nil {
				return err
			}
			if b, err = of(d).Write(ctx, encrypted, env.Version); err != nil {
				return err
			}
			return encrypted.Close()
		})
		done()
		if err := record(ctx, d, "backup", "created", tenant.ID{}, err); err != nil {
			return err
		}
		return reportBackup(env, file, b)
	})
}

func reportBackup(env *cli.Env, file string, b Backup) error {
	if b.Skipped > 0 {
		env.Warn(fmt.Sprintf("%d entries of workspaces are not files, links or directories, or cannot be read; "+
			"they are not part of the backup", b.Skipped))
	}
	if b.Changed > 0 {
		env.Warn(fmt.Sprintf("%s changed by code while being read, and may be in the backup in a mixed state",
			cli.Count(b.Changed, "file")))
	}
	if env.JSON {
		err := env.WriteJSON(map[string]any{
			"success": len(b.Missing) == 0,
			"file":    file,
			"tenants": b.Tenants,
			"files":   b.Files,
			"bytes":   b.Bytes,
			"skipped": b.Skipped,
			"changed": b.Changed,
			"missing": b.Missing,
		})
		if err != nil {
			return err
		}
	} else {
		env.Printf("%s has %s, with %s of %s in workspaces.\n"+
			"The master key and the configuration are not in it: keep copies of them elsewhere.\n",
			file, cli.Count(b.Tenants, "tenant"), cli.Count(b.Files, "file"), cli.Count(b.Bytes, "byte"))
	}
	for _, m := range b.Missing {
		env.Warn(fmt.Sprintf("tenant %s is not, or not completely, in the backup: %s", cli.VisibleName(cmp.Or(m.Tenant.String(), "?")),
			m.Error))
	}
	if len(b.Missing) > 0 {
		return cli.Exit(cli.ExitFailed)
	}
	return nil
}
