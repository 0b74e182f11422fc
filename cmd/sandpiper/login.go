package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream"
)

type loginOptions struct {
	noBrowser bool
	timeout   time.Duration
}

func (a *app) toolsLoginCommand() *cobra.Command {
	var o loginOptions
	c := &cobra.Command{
		Use: "login SERVER", Short: "Log in to a server that wants to know who calls it",
		Long: `Login opens a browser at the server's authorization server and keeps what comes of
it, sealed, in the data directory. Daemons that run use it at once. Where there is
no browser, open the address that is printed on another machine, and paste the one
at which that browser ends, which it may not be able to show.`,
		Example: "  sandpiper tools login linear\n  sandpiper tools login --no-browser linear",
		Args:    cobra.ExactArgs(1),
		RunE:    func(cmd *cobra.Command, args []string) error { return a.runToolsLogin(cmd.Context(), args[0], o) },
	}
	c.Flags().BoolVar(&o.noBrowser, "no-browser", false, "only print the address")
	c.Flags().DurationVar(&o.timeout, "timeout", 5*time.Minute, "give up after `TIME`")
	return c
}

func (a *app) toolsLogoutCommand() *cobra.Command {
	return &cobra.Command{
		Use: "logout SERVER", Short: "Forget a login, and have its tokens revoked",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return a.runToolsLogout(cmd.Context(), args[0]) },
	}
}

func (a *app) runToolsLogin(ctx context.Context, server string, o loginOptions) error {
	if o.timeout <= 0 {
		return usagef("--timeout is %s; it must be more than 0", o.timeout)
	}
	d, err := a.daemon(options{quiet: true})
	if err != nil {
		return err
	}
	defer d.Close()
	waiting, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	if err := d.Servers.Login(waiting, server, a.person(waiting, o)); err != nil {
		return errors.Join(context.Cause(ctx), err)
	}
	change, err := d.Servers.List(ctx, server)
	if err != nil {
		return err
	}
	of, _ := d.Servers.Catalog.Now().Server(server)
	if a.json {
		return a.writeJSON(map[string]any{"success": true, "server": server, "tool_count": of.Tools})
	}
	a.printf("logged in to %s: %d tools%s\n", visibleName(server), of.Tools, changes(change))
	return nil
}

// person is who sits here: they get the address, and may type what came of it.
func (a *app) person(ctx context.Context, o loginOptions) upstream.Interaction {
	lines := make(chan string)
	go func() { // ends with the process, as the read that it waits for
		defer close(lines)
		for {
			line, ok := a.readLine(ctx)
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
		OpenURL: func(address string) { a.visit(address, o) },
		Reject:  func(why string) { a.warn(why) },
		Pasted:  lines,
	}
}

// visit shows the address, and opens it where there is somebody to see it.
func (a *app) visit(address string, o loginOptions) {
	s := styleFor(a.stderr)
	if !o.noBrowser && isTerminal(a.stderr) && openBrowser(address) {
		fmt.Fprintf(a.stderr, "A browser opens to log in. If it does not, open this address:\n\n  %s\n\n", visible(address))
	} else {
		fmt.Fprintf(a.stderr, "Open this address in a browser to log in:\n\n  %s\n\n", visible(address))
	}
	fmt.Fprintln(a.stderr, s.dim(fmt.Sprintf("Waiting %s for it. If the browser is on another machine, it ends at a page that it cannot show:", o.timeout)))
	fmt.Fprintln(a.stderr, s.dim("paste that page's address here."))
}

func (a *app) runToolsLogout(ctx context.Context, server string) error {
	d, err := a.daemon(options{quiet: true})
	if err != nil {
		return err
	}
	defer d.Close()
	unrevoked, err := d.Servers.Logout(ctx, server)
	if err != nil {
		return err
	}
	if a.json {
		return a.writeJSON(map[string]any{"success": true, "server": server, "revoked": unrevoked == nil})
	}
	a.printf("logged out of %s\n", visibleName(server))
	if unrevoked != nil {
		a.warn(fault.Message(unrevoked) + "; they are forgotten here, and end by themselves")
	}
	return nil
}
