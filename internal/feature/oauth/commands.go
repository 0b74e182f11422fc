package oauth

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/sandpiper-mcp/sandpiper/internal/cli"
	"github.com/sandpiper-mcp/sandpiper/internal/daemon"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream"
)

type loginOptions struct {
	tenant    string
	noBrowser bool
	timeout   time.Duration
}

// commands returns the commands login and logout for tools.
func commands(env *cli.Env) []*cobra.Command {
	return []*cobra.Command{cli.Group("tools", "", loginCommand(env), logoutCommand(env))}
}

func loginCommand(env *cli.Env) *cobra.Command {
	var o loginOptions
	c := &cobra.Command{
		Use: "login SERVER", Short: "Log in to a server that requires authorization",
		Long: `Login opens the server's authorization page in a browser and stores the tokens,
encrypted, in the data directory. Running daemons use them at once. Without a
browser, open the printed address on another machine, and paste the address of the
last page here; that page may fail to load.`,
		Example: "  sandpiper tools login linear\n  sandpiper tools login --no-browser linear",
		Args:    cobra.ExactArgs(1),
		RunE:    func(cmd *cobra.Command, args []string) error { return runLogin(cmd.Context(), env, args[0], o) },
	}
	c.Flags().Var((*cli.UIDFlag)(&o.tenant), "tenant", "log in for tenant `ID` only; without it for all tenants without a login of "+
		"their own")
	c.Flags().BoolVar(&o.noBrowser, "no-browser", false, "print the address only")
	cli.DurationFlag(c.Flags(), &o.timeout, "timeout", 5*time.Minute, "give up after `TIME`")
	return c
}

func logoutCommand(env *cli.Env) *cobra.Command {
	var tenant string
	c := &cobra.Command{
		Use: "logout SERVER", Short: "Delete a login and revoke its tokens",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runLogout(cmd.Context(), env, args[0], tenant)
		},
	}
	c.Flags().Var((*cli.UIDFlag)(&tenant), "tenant", "delete the login of tenant `ID`")
	return c
}

func runLogin(ctx context.Context, env *cli.Env, server string, o loginOptions) error {
	if o.timeout <= 0 {
		return cli.Usagef("--timeout is %s; it must be more than 0", o.timeout)
	}
	d, err := cli.OpenDaemon(env, cli.Options{Quiet: true})
	if err != nil {
		return err
	}
	defer d.Close()
	waiting, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	change, err := login(ctx, waiting, env, d, server, o)
	if err != nil {
		return err
	}
	of, _ := d.Servers.Catalog.Now().Server(server)
	if env.JSON {
		return env.WriteJSON(map[string]any{"success": true, "server": server, "tool_count": of.Tools})
	}
	env.Printf("logged in to %s: %s%s\n", cli.VisibleName(server), cli.Count(of.Tools, "tool"), cli.ChangeSummary(change))
	return nil
}

// login logs in, for a tenant or for all, and lists the tools. waiting bounds the login.
func login(ctx, waiting context.Context, env *cli.Env, d *daemon.Daemon, server string, o loginOptions) (change catalog.Change, err error) {
	person := terminalInteraction(waiting, env, o)
	if o.tenant == "" {
		if err := d.Servers.Login(waiting, tenant.ID{}, server, person); err != nil {
			return change, errors.Join(context.Cause(ctx), err)
		}
		return d.Servers.List(ctx, server)
	}
	id, err := tenant.ParseStored(o.tenant)
	if err == nil {
		err = d.CheckTenant(id)
	}
	if err != nil {
		return change, err
	}
	home, err := d.Tenants.AcquireSuspended(ctx, id) // creates the tenant's directory
	if err == nil {
		err = home.Release(ctx)
	}
	if err == nil {
		err = d.Servers.Login(waiting, id, server, person)
	}
	if err != nil {
		return change, err
	}
	return d.Servers.ListOwn(waiting, id, server)
}

// terminalInteraction shows the address and reads the address that the user pastes.
func terminalInteraction(ctx context.Context, env *cli.Env, o loginOptions) upstream.Interaction {
	lines := make(chan string)
	go func() { // runs until the process exits, as the read cannot be cancelled
		defer close(lines)
		for {
			line, ok := env.ReadLine(ctx)
			if !ok && line == "" {
				return
			}
			select {
			case lines <- line:
			case <-ctx.Done():
				return
			}
		}
	}()
	return upstream.Interaction{
		OpenURL: func(address string) { showAddress(env, address, o) },
		Reject:  func(reason string) { env.Warn(reason) },
		Pasted:  lines,
	}
}

// showAddress prints the address, and opens it in a browser if stderr is a terminal.
func showAddress(env *cli.Env, address string, o loginOptions) {
	s := cli.StyleFor(env.Stderr)
	if !o.noBrowser && cli.IsTerminal(env.Stderr) && openBrowser(address) {
		fmt.Fprintf(env.Stderr, "A browser opens to log in. If it does not, open this address:\n\n  %s\n\n", cli.Visible(address))
	} else {
		fmt.Fprintf(env.Stderr, "Open this address in a browser to log in:\n\n  %s\n\n", cli.Visible(address))
	}
	fmt.Fprintln(env.Stderr, s.Dim(fmt.Sprintf("Waiting %s. If the browser is on another machine, its last page fails to load:",
		o.timeout)))
	fmt.Fprintln(env.Stderr, s.Dim("paste that page's address here."))
}

func runLogout(ctx context.Context, env *cli.Env, server, uid string) error {
	d, err := cli.OpenDaemon(env, cli.Options{Quiet: true})
	if err != nil {
		return err
	}
	defer d.Close()
	var id tenant.ID // of all
	if uid != "" {
		if id, err = tenant.ParseStored(uid); err != nil {
			return err
		}
	}
	unrevoked, err := d.Servers.Logout(ctx, id, server)
	if err != nil {
		return err
	}
	if env.JSON {
		return env.WriteJSON(map[string]any{"success": true, "server": server, "revoked": unrevoked == nil})
	}
	env.Printf("logged out of %s\n", cli.VisibleName(server))
	if unrevoked != nil {
		env.Warn(fault.Message(unrevoked) + "; they were deleted here and remain valid until they expire")
	}
	return nil
}
