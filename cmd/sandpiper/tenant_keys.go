package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sandpiper-mcp/sandpiper/internal/access"
	"github.com/sandpiper-mcp/sandpiper/internal/audit"
	"github.com/sandpiper-mcp/sandpiper/internal/cli"
	"github.com/sandpiper-mcp/sandpiper/internal/clock"
	"github.com/sandpiper-mcp/sandpiper/internal/daemon"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

// keyOptions are the flags of tenant key new.
type keyOptions struct {
	name, expires string
	scopes        []string
}

func keyCommand(env *cli.Env) *cobra.Command {
	var o keyOptions
	create := &cobra.Command{
		Use: "new ID", Short: "Create an API key of a tenant and print it",
		Long: `New prints a key that identifies the tenant ID over HTTP. It is shown once: only its hash is
stored. Daemons accept keys if http.api_keys is true in their configuration.

Scopes: execute runs code and calls tools, files reads and changes workspace files directly,
approve answers questions for the person, admin changes the server and other tenants.`,
		Example: "  sandpiper tenant key new customer_A --name laptop\n  sandpiper tenant key new customer_A --scope execute --expires 90d",
		Args:    cobra.ExactArgs(1),
		RunE:    func(cmd *cobra.Command, args []string) error { return runKeyNew(cmd.Context(), env, args[0], o) },
	}
	create.Flags().StringVar(&o.name, "name", "", "what the key is for")
	create.Flags().StringVar(&o.expires, "expires", "never", "time until it expires, such as 90d or 12h")
	create.Flags().StringSliceVar(&o.scopes, "scope", []string{"execute", "files", "approve"}, "its scopes")
	return cli.Group("key", "Create, list and revoke API keys",
		create,
		&cobra.Command{
			Use: "list [ID]", Short: "List the API keys of a tenant, or of all",
			Args: cobra.MaximumNArgs(1),
			RunE: func(cmd *cobra.Command, args []string) error {
				return runKeyList(cmd.Context(), env, append(args, "")[0])
			},
		},
		&cobra.Command{
			Use: "revoke KEY", Short: "Revoke an API key",
			Long: "Revoke makes all daemons refuse the key from its next request on. KEY is its id, as tenant key list prints it.",
			Args: cobra.ExactArgs(1),
			RunE: func(cmd *cobra.Command, args []string) error { return runKeyRevoke(cmd.Context(), env, args[0]) },
		},
	)
}

// withKeys calls use with the API keys of the data directory.
func withKeys(ctx context.Context, env *cli.Env, use func(*daemon.Daemon, *access.Keys) error) error {
	return cli.WithDaemon(env, func(d *daemon.Daemon) (err error) {
		keys, err := d.HTTP.OpenKeys(ctx)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, keys.Close()) }()
		return use(d, keys)
	})
}

func runKeyNew(ctx context.Context, env *cli.Env, uid string, o keyOptions) error {
	id, err := tenant.Parse(uid)
	if err != nil {
		return err
	}
	key := access.Key{Tenant: id, Name: o.name}
	for _, name := range o.scopes {
		s, err := access.ParseScope(name)
		if err != nil {
			return err
		}
		key.Scopes = append(key.Scopes, s)
	}
	lasting, err := parseTime(o.expires)
	if err != nil {
		return err
	}
	if lasting > 0 {
		key.Expires = time.Now().Add(lasting).UTC().Truncate(time.Second)
	}
	return withKeys(ctx, env, func(d *daemon.Daemon, keys *access.Keys) error {
		key, text, err := keys.New(ctx, key)
		if err != nil {
			return err
		}
		if err := d.Record(ctx, audit.Line{Kind: audit.Configuration, Tenant: id, Section: "key " + key.ID, Outcome: "created"},
			"the key is created"); err != nil {
			return err
		}
		if _, err := d.Tenants.Find(id); fault.KindOf(err) == fault.NotFound {
			env.Warn(fmt.Sprintf("there is no tenant %q yet: its first request creates it", id))
		}
		if !d.HTTP.AcceptsKeys() {
			env.Warn("daemons do not accept API keys: set http.api_keys to true in the configuration")
		}
		if env.JSON {
			return env.WriteJSON(struct {
				access.Key
				Text string `json:"key"`
			}{key, text})
		}
		env.Printf("%s\n", text)
		return nil
	})
}

// parseTime reads a time such as 90d or 12h; never means 0.
func parseTime(text string) (time.Duration, error) {
	if text == "never" {
		return 0, nil
	}
	d, err := clock.ParseDuration(text)
	if err != nil || d <= 0 || d > 100*365*24*time.Hour {
		return 0, cli.Usagef("%q is not a time such as 90d or 12h, or never", text)
	}
	return d, nil
}

func runKeyList(ctx context.Context, env *cli.Env, uid string) error {
	var id tenant.ID
	if uid != "" {
		var err error
		if id, err = tenant.ParseStored(uid); err != nil {
			return err
		}
	}
	return withKeys(ctx, env, func(d *daemon.Daemon, keys *access.Keys) error {
		all, err := keys.List(ctx, id)
		if err == nil && len(all) == 0 && uid != "" {
			err = d.CheckTenant(id)
		}
		if err != nil {
			return err
		}
		if env.JSON {
			return cli.WriteList(env, "keys", all)
		}
		for _, k := range all {
			env.Printf("%s  %-24s %-20s %s\n", k.ID, cli.VisibleName(k.Tenant.String()), cli.VisibleName(k.Name), keyState(k))
		}
		return nil
	})
}

// keyState returns the scopes of a key, and why it is refused.
func keyState(k access.Key) string {
	var scopes []string
	for _, s := range k.Scopes {
		scopes = append(scopes, string(s))
	}
	state := strings.Join(scopes, ",")
	switch {
	case !k.Revoked.IsZero():
		state += ", revoked " + k.Revoked.Local().Format(time.DateTime)
	case k.Expires.IsZero():
	case !time.Now().Before(k.Expires):
		state += ", expired " + k.Expires.Local().Format(time.DateTime)
	default:
		state += ", expires " + k.Expires.Local().Format(time.DateTime)
	}
	return state
}

func runKeyRevoke(ctx context.Context, env *cli.Env, keyID string) error {
	return withKeys(ctx, env, func(d *daemon.Daemon, keys *access.Keys) error {
		key, err := keys.Revoke(ctx, keyID)
		if err != nil {
			return err
		}
		if err := d.Record(ctx, audit.Line{Kind: audit.Configuration, Tenant: key.Tenant, Section: "key " + key.ID, Outcome: "revoked"},
			"the key is revoked"); err != nil {
			return err
		}
		if env.JSON {
			return env.WriteJSON(map[string]any{"success": true, "message": "Key " + key.ID + " is revoked"})
		}
		env.Printf("Key %s of %s is revoked.\n", key.ID, cli.VisibleName(key.Tenant.String()))
		return nil
	})
}

// forgetKeys deletes the API keys of a tenant.
func forgetKeys(ctx context.Context, d *daemon.Daemon, id tenant.ID) (err error) {
	keys, err := d.HTTP.OpenKeys(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, keys.Close()) }()
	return keys.Forget(ctx, id)
}
