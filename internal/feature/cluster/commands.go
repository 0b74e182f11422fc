package cluster

import (
	"archive/tar"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/sandpiper-mcp/sandpiper/internal/cli"
	"github.com/sandpiper-mcp/sandpiper/internal/clock"
	"github.com/sandpiper-mcp/sandpiper/internal/daemon"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/store/bucketlog"
	"github.com/sandpiper-mcp/sandpiper/internal/store/durable"
	"github.com/sandpiper-mcp/sandpiper/internal/store/secret"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

func commands(env *cli.Env) []*cobra.Command {
	c := cli.Group("store", "Show, check and restore the copy in a bucket", statusCommand(env), checkCommand(env), restoreCommand(env),
		adoptCommand(env))
	c.GroupID = cli.OperationGroup
	return []*cobra.Command{c}
}

func statusCommand(env *cli.Env) *cobra.Command {
	return &cobra.Command{
		Use: "status", Short: "Show what can be restored of each tenant",
		Long: `Status lists the tenants in the bucket of store.bucket: from when to when each can be restored, and how much of
it is stored. It reads two entries of each.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return eachLog(cmd.Context(), env, "reading the bucket", func(ctx context.Context, l *bucketlog.Log) (checked, error) {
				c, _, err := describe(ctx, l)
				return c, err
			})
		},
	}
}

func checkCommand(env *cli.Env) *cobra.Command {
	return &cobra.Command{
		Use: "check", Short: "Read the whole copy back, and verify it",
		Long: `Check reads every object of the bucket of store.bucket, and verifies that all entries of each tenant follow from each
other, and that all files are there. The exit code is 1 if the copy of a tenant is damaged.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return eachLog(cmd.Context(), env, "checking", check)
		},
	}
}

// withStore calls f with the bucket of the configuration, and the master key in a file, or in the data directory if it is "".
func withStore(ctx context.Context, env *cli.Env, keyFile string, f func(s *bucketStore, master []byte) error) error {
	cfg, err := cli.LoadConfig(env, nil)
	if err != nil {
		return err
	}
	if settings(cfg).Store.Bucket == "" {
		return errNoBucket
	}
	path := cmp.Or(keyFile, filepath.Join(cfg.DataDir, "key"))
	master, err := secret.KeyFile(path).Read()
	if errors.Is(err, fs.ErrNotExist) {
		return fault.Wrap(fault.NotFound, err, "%s does not exist: the bucket is read with the master key of the data directory that "+
			"it is of", path).
			WithHint("copy that key there")
	}
	if err != nil {
		return err
	}
	s, err := openStoreWith(ctx, settings(cfg).Store.Bucket, cfg.DataDir, master)
	if err != nil {
		return err
	}
	return errors.Join(f(s, master), s.close())
}

// eachLog prints what f returns of each log.
func eachLog(ctx context.Context, env *cli.Env, working string, f func(context.Context, *bucketlog.Log) (checked, error)) error {
	return withStore(ctx, env, "", func(s *bucketStore, _ []byte) error {
		done := env.Working(working)
		all, err := describeAll(ctx, s, f)
		done()
		if err != nil {
			return err
		}
		if _, err := os.Lstat(filepath.Join(s.dir, nodeFile)); len(all) > 0 && errors.Is(err, fs.ErrNotExist) {
			env.Warn(fault.Message(errOther) + ": " + fault.Hint(errOther))
		}
		damaged := false
		for _, c := range all {
			damaged = damaged || c.Error != ""
		}
		if env.JSON {
			err = env.WriteJSON(map[string]any{"success": !damaged, "tenants": all})
		} else {
			printAll(env, all)
		}
		if err == nil && damaged {
			err = cli.Exit(cli.ExitFailed)
		}
		return err
	})
}

func describeAll(ctx context.Context, s *bucketStore, f func(context.Context, *bucketlog.Log) (checked, error)) ([]checked, error) {
	names, err := s.names(ctx)
	if err != nil {
		return nil, err
	}
	all := []checked{}
	for _, name := range names {
		l, err := s.named(name)
		if err != nil {
			return nil, err
		}
		c, err := f(ctx, l)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if c.Tenant == "" {
			c.Tenant = name
		}
		if name == control {
			c.Tenant = ""
		}
		if err != nil {
			c.Error = cmpMessage(err)
		}
		all = append(all, c)
	}
	return all, nil
}

func printAll(env *cli.Env, all []checked) {
	if len(all) == 0 {
		env.Printf("The bucket has no tenants yet.\n")
		return
	}
	for _, c := range all {
		what := fmt.Sprintf("%s to %s, %s, %s", c.Oldest.Local().Format(time.DateTime), c.Newest.Local().Format(time.DateTime),
			cli.Count(c.Entries, "object"), cli.Count(c.Bytes, "byte"))
		if c.Contents > 0 {
			what += fmt.Sprintf(", %s read", cli.Count(c.Contents, "content"))
		}
		if c.Deleted {
			what += ", deleted"
		}
		if c.Error != "" {
			what = "damaged: " + c.Error
		}
		name := cli.VisibleName(c.Tenant)
		if c.Tenant == "" {
			name = "(shared)"
		}
		env.Printf("%-20s %s\n", name, what)
	}
}

func adoptCommand(env *cli.Env) *cobra.Command {
	return &cobra.Command{
		Use: "adopt", Short: "Let this data directory continue the copies of another one",
		Long: `Adopt lets the data directory in use continue the copies in the bucket of store.bucket, which another one has written: for
one that was restored, when the other one is not used any more. If the other one is used again, it copies nothing, and says so.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withStore(cmd.Context(), env, "", func(s *bucketStore, _ []byte) error {
				if _, err := s.adopt(); err != nil {
					return err
				}
				if env.JSON {
					return env.WriteJSON(map[string]any{"success": true})
				}
				env.Printf("This data directory continues the copies in the bucket.\n")
				return nil
			})
		},
	}
}

type restoreOptions struct {
	tenant, at, to, key string
	replace             bool
}

func restoreCommand(env *cli.Env) *cobra.Command {
	var o restoreOptions
	c := &cobra.Command{
		Use: "restore", Short: "Create a data directory, or one tenant, as it was at any time",
		Long: `Restore creates the data directory of --to from the bucket of store.bucket, with all tenants or that of --tenant, as
they were at the time of --at, or at the last time that was copied. Without --to it creates the one tenant in the
data directory in use; a tenant that exists is replaced only with --replace, and only if it is suspended.

The master key is that of the data directory in use, or in the file of --key.`,
		Example: `  sandpiper store restore --to /var/lib/sandpiper-restored
  sandpiper store restore --tenant customer_A --at 2026-11-28T14:05:00Z --to /tmp/before
  sandpiper store restore --tenant customer_A --replace`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case o.to == "" && o.tenant == "":
				return cli.Usagef("give --to DIR for a new data directory, or --tenant ID for one tenant of the one in use")
			case o.to != "" && o.replace:
				return cli.Usagef("--to and --replace exclude each other: a new data directory has no tenants")
			case o.to == "" && o.key != "":
				return cli.Usagef("--key needs --to: the data directory in use has its key")
			}
			return runRestore(cmd.Context(), env, o)
		},
	}
	c.Flags().Var((*cli.UIDFlag)(&o.tenant), "tenant", "restore only tenant `ID`")
	c.Flags().StringVar(&o.at, "at", "", "restore the state at a `TIME`, such as 2026-11-28T14:05:00Z or 10m (ago)")
	c.Flags().StringVar(&o.to, "to", "", "create the data directory `DIR`, which must be empty or missing")
	c.Flags().StringVar(&o.key, "key", "", "use the master key in `FILE`")
	c.Flags().BoolVar(&o.replace, "replace", false, "replace the data of the tenant, which must be suspended")
	return c
}

func runRestore(ctx context.Context, env *cli.Env, o restoreOptions) error {
	at, err := parseTime(o.at, time.Now())
	if err != nil {
		return err
	}
	var one tenant.ID
	if o.tenant != "" {
		if one, err = tenant.ParseStored(o.tenant); err != nil {
			return err
		}
	}
	n := 1
	err = withStore(ctx, env, o.key, func(s *bucketStore, master []byte) (err error) {
		done := env.Working("restoring")
		defer done()
		if o.to == "" {
			return restoreInUse(ctx, s, env, one, at, o.replace)
		}
		n, err = restoreTo(ctx, s, env, o.to, one, at, master)
		return err
	})
	if err != nil {
		return err
	}
	if env.JSON {
		return env.WriteJSON(map[string]any{"success": true, "tenants": n})
	}
	if o.to == "" {
		env.Printf("Tenant %s is restored.\n", cli.VisibleName(o.tenant))
		return nil
	}
	env.Printf("%s has %s.\n", o.to, cli.Count(n, "tenant"))
	return nil
}

// parseTime returns a time, or one that long before now; zero for "".
func parseTime(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return t, nil
	}
	if d, err := clock.ParseDuration(text); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	return time.Time{}, fault.New(fault.Invalid, "--at %.40q is no time", text).
		WithHint("write it as %s, or how long ago it was, such as 10m", now.UTC().Format(time.RFC3339))
}

// restoreTo creates a data directory, and returns the number of its tenants.
func restoreTo(ctx context.Context, s *bucketStore, env *cli.Env, dir string, one tenant.ID, at time.Time, master []byte) (n int,
	err error) {
	names := []string{control, one.Dir()}
	if one.IsZero() {
		if names, err = s.names(ctx); err != nil {
			return 0, err
		}
	}
	r, err := home.StartRestore(dir, daemon.HomeFeatures(env.Features))
	if err != nil {
		return 0, err
	}
	if n, err = addTenants(ctx, s, names, at, !one.IsZero(), r.Add); err == nil {
		err = placeKey(filepath.Join(dir, "key"), master)
	}
	if err == nil {
		err = r.Commit(ctx)
	}
	if err != nil {
		return 0, errors.Join(err, r.Abort())
	}
	return n, nil
}

// addTenants adds the entries of logs. Tenants that did not exist at the time are left out, unless one is required.
func addTenants(ctx context.Context, s *bucketStore, names []string, at time.Time, required bool,
	add func(*tar.Header, io.Reader) error) (n int, err error) {
	for _, name := range names {
		l, err := s.named(name)
		if err != nil {
			return n, err
		}
		last, err := before(ctx, l, at)
		if err == nil && name == control {
			if err = addShared(ctx, s, last, add); err == nil {
				continue
			}
		} else if err == nil {
			err = entries(ctx, l, last, add)
		}
		if fault.KindOf(err) == fault.NotFound && (!required || name == control) {
			continue
		}
		if err != nil {
			return n, ofTenant(name, err)
		}
		n++
	}
	return n, nil
}

// ofTenant returns an error with the name of the tenant that it is about.
func ofTenant(name string, err error) error {
	return fault.Wrap(fault.KindOf(err), err, "tenant %q: %s", name, cmpMessage(err)).WithHint("%s", fault.Hint(err))
}

func placeKey(path string, master []byte) error {
	if _, err := os.Lstat(path); err == nil {
		_, err := secret.KeyFile(path).ReadMatching(secret.Fingerprint(master))
		return err
	}
	return durable.WriteFile(path, master)
}

func restoreInUse(ctx context.Context, s *bucketStore, env *cli.Env, id tenant.ID, at time.Time, replace bool) error {
	l, err := s.of(id)
	if err != nil {
		return err
	}
	n, err := before(ctx, l, at)
	if err != nil {
		return ofTenant(id.String(), err)
	}
	return cli.WithDaemon(env, func(d *daemon.Daemon) error {
		_, err := d.Tenants.Restore(ctx, id, replace, func(add func(*tar.Header, io.Reader) error) error { return entries(ctx, l, n, add) })
		return err
	})
}
