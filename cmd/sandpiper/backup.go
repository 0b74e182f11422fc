package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"time"

	"filippo.io/age"
	"github.com/spf13/cobra"

	"github.com/sandpiper-mcp/sandpiper/internal/cli"
	"github.com/sandpiper-mcp/sandpiper/internal/daemon"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

func backupCommand(env *cli.Env) *cobra.Command {
	var o transferOptions
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
		Example: "  sandpiper backup /backup/sandpiper-2026-11-23.tar\n  sandpiper backup /backup/sandpiper-2026-11-23.tar.age --recipient age1...",
		Args:    cobra.ExactArgs(1),
		RunE:    func(cmd *cobra.Command, args []string) error { return runBackup(cmd.Context(), env, args[0], o) },
	}
	c.Flags().StringArrayVar(&o.recipients, "recipient", nil, "encrypt to an age `RECIPIENT`, age1...; may be repeated")
	c.Flags().StringVar(&o.passphrase, "passphrase-file", "", "encrypt with the passphrase in the first line of `FILE`")
	return c
}

func runBackup(ctx context.Context, env *cli.Env, file string, o transferOptions) error {
	var recipients []age.Recipient
	if len(o.recipients) > 0 || o.passphrase != "" {
		var err error
		if recipients, err = readRecipients(env, o); err != nil {
			return err
		}
	}
	return cli.WithDaemon(env, func(d *daemon.Daemon) error {
		if in, err := d.Backups.Contains(file); err != nil || in {
			if err == nil {
				err = fault.New(fault.Invalid, "%s is in the data directory, which it is a backup of", file).WithHint("give a name on another disk")
			}
			return err
		}
		var b daemon.Backup
		done := env.Working("writing the backup")
		err := createFile(file, func(w io.Writer) (err error) {
			if len(recipients) == 0 {
				b, err = d.Backups.Write(ctx, w)
				return err
			}
			encrypted, err := age.Encrypt(w, recipients...)
			if err != nil {
				return err
			}
			if b, err = d.Backups.Write(ctx, encrypted); err != nil {
				return err
			}
			return encrypted.Close()
		})
		done()
		if err := d.Backups.Record(ctx, "created", tenant.ID{}, err); err != nil {
			return err
		}
		return reportBackup(env, file, b)
	})
}

func reportBackup(env *cli.Env, file string, b daemon.Backup) error {
	if b.Skipped > 0 {
		env.Warn(fmt.Sprintf("%d entries of workspaces are not files, links or directories, or cannot be read; they are not part of the backup", b.Skipped))
	}
	if b.Changed > 0 {
		env.Warn(fmt.Sprintf("%s changed by code while being read, and may be in the backup in a mixed state", cli.Count(b.Changed, "file")))
	}
	if env.JSON {
		if err := env.WriteJSON(map[string]any{"success": len(b.Missing) == 0, "file": file, "tenants": b.Tenants, "files": b.Files, "bytes": b.Bytes, "skipped": b.Skipped, "changed": b.Changed, "missing": b.Missing}); err != nil {
			return err
		}
	} else {
		env.Printf("%s has %s, with %s of %s in workspaces.\nThe master key and the configuration are not in it: keep copies of them elsewhere.\n",
			file, cli.Count(b.Tenants, "tenant"), cli.Count(b.Files, "file"), cli.Count(b.Bytes, "byte"))
	}
	for _, m := range b.Missing {
		env.Warn(fmt.Sprintf("tenant %s is not, or not completely, in the backup: %s", cli.VisibleName(cmp.Or(m.Tenant.String(), "?")), m.Error))
	}
	if len(b.Missing) > 0 {
		return cli.Exit(cli.ExitFailed)
	}
	return nil
}

func restoreCommand(env *cli.Env) *cobra.Command {
	var uid, key string
	var replace bool
	var o transferOptions
	c := &cobra.Command{
		Use: "restore FILE", Short: "Create the data directory, or one tenant, from a backup",
		Long: `Restore creates the data directory from a file of backup. The directory (data_dir in the
configuration) must be empty, except for the master key of the backup, the file key; --key copies
it there. If a restore is interrupted, no daemon starts on the directory until it is repeated.

With --tenant it creates one tenant in a data directory that is in use, with the same master key. A
tenant that exists is replaced only with --replace, and only if it is suspended; it remains suspended.
API keys are not restored with --tenant.

An encrypted backup needs --identity or --passphrase-file, or asks for the passphrase.

The whole file is verified first: one that is truncated, altered, of a newer Sandpiper, or written
with another master key changes nothing.`,
		Example: "  sandpiper restore sandpiper-2026-11-23.tar --key /secure/sandpiper.key\n  XDG_DATA_HOME=/elsewhere sandpiper restore sandpiper-2026-11-23.tar --key /secure/sandpiper.key\n  sandpiper restore sandpiper-2026-11-23.tar --tenant customer_A --replace",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case uid != "" && key != "":
				return cli.Usagef("--key and --tenant exclude each other: the data directory has its key")
			case uid == "" && replace:
				return cli.Usagef("--replace needs --tenant")
			case uid != "":
				return runRestoreTenant(cmd.Context(), env, backupFile(env, args[0], o), uid, replace)
			}
			return runRestore(cmd.Context(), env, backupFile(env, args[0], o), key)
		},
	}
	c.Flags().Var((*cli.UIDFlag)(&uid), "tenant", "restore only tenant `ID`")
	c.Flags().BoolVar(&replace, "replace", false, "replace the data of the tenant, which must be suspended")
	c.Flags().StringVar(&key, "key", "", "copy the master key from `FILE` to the data directory")
	c.Flags().StringVar(&o.identity, "identity", "", "decrypt with the age identities in `FILE`")
	c.Flags().StringVar(&o.passphrase, "passphrase-file", "", "decrypt with the passphrase in the first line of `FILE`")
	return c
}

// backupFile returns a file of backup, which is decrypted with the identity or passphrase of the flags.
func backupFile(env *cli.Env, path string, o transferOptions) daemon.BackupFile {
	return daemon.BackupFile{Path: path, Decrypt: func(content io.ReaderAt, size int64) (io.ReaderAt, int64, error) {
		identities, err := readIdentities(env, o)
		if err != nil {
			return nil, 0, err
		}
		plain, size, err := age.DecryptReaderAt(content, size, identities...)
		if err != nil {
			err = decryptFault(path, "sandpiper backup", err)
		}
		return plain, size, err
	}}
}

// restoring calls working until stop is called, but not while file asks for a passphrase.
func restoring(env *cli.Env, file daemon.BackupFile) (asking daemon.BackupFile, stop func()) {
	done, decrypt := env.Working("restoring"), file.Decrypt
	file.Decrypt = func(content io.ReaderAt, size int64) (io.ReaderAt, int64, error) {
		done()
		defer func() { done = env.Working("restoring") }()
		return decrypt(content, size)
	}
	return file, func() { done() }
}

func runRestore(ctx context.Context, env *cli.Env, file daemon.BackupFile, key string) error {
	cfg, err := cli.LoadConfig(env, nil)
	if err != nil {
		return err
	}
	file, stop := restoring(env, file)
	done, err := daemon.Restore(ctx, cfg.DataDir, env.Features, file, key)
	stop()
	if err != nil {
		return err
	}
	err = cli.WithDaemon(env, func(d *daemon.Daemon) error { return d.Backups.Record(ctx, "restored", tenant.ID{}, nil) })
	if err != nil {
		return err
	}
	return reportRestore(env, fmt.Sprintf("%s has %s", cfg.DataDir, cli.Count(done.Tenants, "tenant")), done)
}

func runRestoreTenant(ctx context.Context, env *cli.Env, file daemon.BackupFile, uid string, replace bool) error {
	id, err := tenant.ParseStored(uid)
	if err != nil {
		return err
	}
	return cli.WithDaemon(env, func(d *daemon.Daemon) error {
		file, stop := restoring(env, file)
		done, err := d.Backups.RestoreTenant(ctx, file, id, replace)
		stop()
		if err := d.Backups.Record(ctx, "restored", id, err); err != nil {
			return err
		}
		e, err := d.Tenants.Find(id)
		if err == nil && e.Suspension != nil {
			env.Warn(fmt.Sprintf("tenant %s is suspended; accept its requests with `sandpiper tenant activate`", cli.VisibleName(uid)))
		}
		return reportRestore(env, fmt.Sprintf("Tenant %s is restored", cli.VisibleName(uid)), done)
	})
}

func reportRestore(env *cli.Env, what string, done daemon.Restored) error {
	if env.JSON {
		return env.WriteJSON(map[string]any{"success": true, "tenants": done.Tenants, "files": done.Files, "bytes": done.Bytes, "created": done.Created})
	}
	env.Printf("%s, with %s of %s, as of %s.\n", what, cli.Count(done.Files, "file"), cli.Count(done.Bytes, "byte"), done.Created.Local().Format(time.DateTime))
	return nil
}
