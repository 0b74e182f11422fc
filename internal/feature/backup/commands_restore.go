package backup

import (
	"context"
	"fmt"
	"io"
	"time"

	"filippo.io/age"
	"github.com/spf13/cobra"

	"github.com/sandpiper-mcp/sandpiper/internal/cli"
	"github.com/sandpiper-mcp/sandpiper/internal/daemon"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

func restoreCommand(env *cli.Env) *cobra.Command {
	var uid, key string
	var replace bool
	var k keys
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
		Example: `  sandpiper restore sandpiper-2026-11-23.tar --key /secure/sandpiper.key
  XDG_DATA_HOME=/elsewhere sandpiper restore sandpiper-2026-11-23.tar --key /secure/sandpiper.key
  sandpiper restore sandpiper-2026-11-23.tar --tenant customer_A --replace`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case uid != "" && key != "":
				return cli.Usagef("--key and --tenant exclude each other: the data directory has its key")
			case uid == "" && replace:
				return cli.Usagef("--replace needs --tenant")
			case uid != "":
				return runRestoreTenant(cmd.Context(), env, fileOf(env, args[0], k), uid, replace)
			}
			return runRestore(cmd.Context(), env, fileOf(env, args[0], k), key)
		},
	}
	c.Flags().Var((*cli.UIDFlag)(&uid), "tenant", "restore only tenant `ID`")
	c.Flags().BoolVar(&replace, "replace", false, "replace the data of the tenant, which must be suspended")
	c.Flags().StringVar(&key, "key", "", "copy the master key from `FILE` to the data directory")
	c.Flags().StringVar(&k.identity, "identity", "", "decrypt with the age identities in `FILE`")
	c.Flags().StringVar(&k.passphrase, "passphrase-file", "", "decrypt with the passphrase in the first line of `FILE`")
	return c
}

// fileOf returns a file of backup, which is decrypted with the identity or passphrase of the flags.
func fileOf(env *cli.Env, path string, k keys) File {
	return File{Path: path, Decrypt: func(content io.ReaderAt, size int64) (io.ReaderAt, int64, error) {
		identities, err := readIdentities(env, k)
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
func restoring(env *cli.Env, file File) (asking File, stop func()) {
	done, decrypt := env.Working("restoring"), file.Decrypt
	file.Decrypt = func(content io.ReaderAt, size int64) (io.ReaderAt, int64, error) {
		done()
		defer func() { done = env.Working("restoring") }()
		return decrypt(content, size)
	}
	return file, func() { done() }
}

func runRestore(ctx context.Context, env *cli.Env, file File, key string) error {
	cfg, err := cli.LoadConfig(env, nil)
	if err != nil {
		return err
	}
	file, stop := restoring(env, file)
	done, err := Restore(ctx, cfg.DataDir, daemon.HomeFeatures(env.Features), file, key)
	stop()
	if err != nil {
		return err
	}
	err = cli.WithDaemon(env, func(d *daemon.Daemon) error { return record(ctx, d, "backup", "restored", tenant.ID{}, nil) })
	if err != nil {
		return err
	}
	return reportRestore(env, fmt.Sprintf("%s has %s", cfg.DataDir, cli.Count(done.Tenants, "tenant")), done)
}

func runRestoreTenant(ctx context.Context, env *cli.Env, file File, uid string, replace bool) error {
	id, err := tenant.ParseStored(uid)
	if err != nil {
		return err
	}
	return cli.WithDaemon(env, func(d *daemon.Daemon) error {
		file, stop := restoring(env, file)
		done, err := of(d).RestoreTenant(ctx, file, id, replace)
		stop()
		if err := record(ctx, d, "backup", "restored", id, err); err != nil {
			return err
		}
		e, err := d.Tenants.Find(id)
		if err == nil && e.Suspension != nil {
			env.Warn(fmt.Sprintf("tenant %s is suspended; accept its requests with `sandpiper tenant activate`", cli.VisibleName(uid)))
		}
		return reportRestore(env, fmt.Sprintf("Tenant %s is restored", cli.VisibleName(uid)), done)
	})
}

func reportRestore(env *cli.Env, what string, done Restored) error {
	if env.JSON {
		return env.WriteJSON(map[string]any{
			"success": true, "tenants": done.Tenants, "files": done.Files, "bytes": done.Bytes, "created": done.Created,
		})
	}
	env.Printf("%s, with %s of %s, as of %s.\n",
		what, cli.Count(done.Files, "file"), cli.Count(done.Bytes, "byte"), done.Created.Local().Format(time.DateTime))
	return nil
}
