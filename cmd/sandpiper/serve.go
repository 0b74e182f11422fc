package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/sandpiper-mcp/sandpiper/internal/cli"
	"github.com/sandpiper-mcp/sandpiper/internal/config"
	"github.com/sandpiper-mcp/sandpiper/internal/daemon"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver"
	"github.com/sandpiper-mcp/sandpiper/internal/policy"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

func serveCommand(env *cli.Env) *cobra.Command {
	var profile, addr, dir string
	var container bool
	profiles, about, example := profilesOf(env.Features)
	c := &cobra.Command{
		Use:   "serve",
		Short: "Serve MCP over standard input and output, or over HTTP",
		Long: `Serve serves one MCP client on standard input and output until the client closes
them. Clients start this command themselves; add it to their configuration. Logs go
to standard error, or to the file in log.file.

With --tenant the client is that tenant, whose first request creates its data.

With --http it serves any number of clients at http://HOST:PORT/mcp until it is
stopped, in the protocol versions from 2024-11-05 to 2026-07-28; with http.tls in the
configuration, at https://HOST:PORT/mcp. An address that
other machines can reach requires a token (http.token in the configuration, or
SANDPIPER_HTTP_TOKEN), which clients send as a bearer token. /healthz reports that
the process runs, /readyz that it can execute code. SIGTERM and SIGINT stop it, after
running calls or http.drain (5s); a second signal ends it at once.
SIGHUP reloads the configuration and ends no call; see docs/configuration.md.

Profiles: lean offers execute_code and the search of tools, standard adds files,
skills and statistics, full adds the rest.` + about,
		Example: `  sandpiper serve
  sandpiper serve --profile lean
` + example + `  sandpiper serve --tenant customer_A
  sandpiper serve --http 127.0.0.1:8765
  sandpiper init --apply claude-code
  claude mcp add --transport http sandpiper http://127.0.0.1:8765/mcp`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			flags := map[string]string{}
			if cmd.Flags().Changed("profile") {
				flags["profile"] = profile
			}
			if cmd.Flags().Changed("http") && addr == "" {
				return cli.Usagef("--http requires an address, such as 127.0.0.1:8765")
			}
			if addr != "" && cmd.Flags().Changed("tenant") {
				return cli.Usagef("--tenant cannot be combined with --http, where a token identifies the tenant; remove one")
			}
			if dir != "" {
				if err := os.Chdir(dir); err != nil {
					return cli.Usagef("--dir %s: %s", dir, err)
				}
			}
			if container {
				return serveInContainer(cmd.Context(), env, containerFlags(cmd), addr)
			}
			return runServe(cmd.Context(), env, flags, addr)
		},
	}
	cli.EnumFlag(c.Flags(), &profile, "profile", "", "tools to offer: "+cli.OrList(profiles), profiles...)
	c.Flags().StringVar(&dir, "dir", "", "use `DIR` as the working directory, including its project configuration if trusted")
	c.Flags().BoolVar(&container, "container", runtime.GOOS != "linux",
		"run the image beside the program with docker, podman or nerdctl; the default on macOS and Windows")
	c.Flags().StringVar(&addr, "http", "", "serve over HTTP at `HOST:PORT`, such as 127.0.0.1:8765")
	return cli.OfTenant(env, c)
}

// profilesOf returns the profiles, and the words and the example about those of features in the help.
func profilesOf(features []daemon.Feature) (names []string, about, example string) {
	for _, f := range features {
		if p := f.Config.Profile; p.Name != "" {
			about, example = " "+p.About, "  sandpiper serve --profile "+p.Name+"\n"
		}
	}
	return config.Profiles(daemon.Sections(features)), about, example
}

// runServe serves over HTTP if addr is not empty, otherwise over stdio.
func runServe(ctx context.Context, env *cli.Env, flags map[string]string, addr string) error {
	id, err := tenant.Parse(cmp.Or(env.Tenant, tenant.Local.String())) // it may be a new one
	if err != nil {
		return err
	}
	limit := capabilityLimit(env, flags)
	if err := limit(startCapabilities); err != nil {
		return err
	}
	reloads := make(chan os.Signal, 1) // before the daemon starts, so that a closed terminal does not end it
	signal.Notify(reloads, syscall.SIGHUP)
	defer signal.Stop(reloads)
	d, err := cli.OpenDaemon(env, cli.Options{Flags: flags, Served: addr != "", Tenant: id, Reloads: reloads})
	if err != nil && addr == "" && !cli.IsTerminal(env.Stdin) {
		return serveProblem(ctx, env, err)
	}
	if err != nil {
		return err
	}
	// A write to a client that has closed its end returns an error instead of ending the
	// process.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	if addr != "" {
		err = serveHTTP(ctx, env, d, addr, limit)
	} else {
		err = serveStdio(ctx, env, d, limit)
	}
	if closing := d.Close(); err == nil && closing != nil {
		err = fmt.Errorf("stop: %w", closing)
	}
	return err
}

// serveProblem prints err, and answers the client with it until the client closes the connection.
func serveProblem(ctx context.Context, env *cli.Env, err error) error {
	env.JSON = false // stdout is for messages of the protocol
	code := env.Report(ctx, err)
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	if err := mcpserver.ServeProblem(ctx, env.Version, err, env.Stdin, env.RawStdout()); err != nil {
		return err
	}
	return cli.Exit(code)
}

// capabilityLimit returns limitCapabilities, or a function without effect if sandboxes in
// use need the capabilities of root: programs of backends other than process are started with them.
func capabilityLimit(env *cli.Env, flags map[string]string) func(keep uint64) error {
	cfg, err := cli.LoadConfig(env, flags)
	if err == nil {
		used := cfg.SandboxesInUse()
		if delete(used, policy.Process); len(used) > 0 {
			return func(uint64) error { return nil }
		}
	}
	return func(keep uint64) error {
		if err := limitProcess(keep); err != nil {
			return fmt.Errorf("remove capabilities: %w", err)
		}
		return nil
	}
}

// limitProcess is a variable for tests that serve in their own process, which starts other programs later.
var limitProcess = limitCapabilities

func serveStdio(ctx context.Context, env *cli.Env, d *daemon.Daemon, limit func(uint64) error) error {
	if cli.IsTerminal(env.Stdin) {
		env.Warn("sandpiper serve expects MCP messages on standard input, which is a terminal; MCP clients start this command " +
			"themselves. Press Ctrl-D to exit.")
	}
	if err := limit(servingCapabilities); err != nil {
		return err
	}
	return d.Serve(ctx, env.Stdin, env.RawStdout())
}

func serveHTTP(ctx context.Context, env *cli.Env, d *daemon.Daemon, addr string, limit func(uint64) error) error {
	ln, err := d.HTTP.Listen(ctx, addr)
	if err != nil {
		return err
	}
	if err := limit(servingCapabilities); err != nil {
		return err
	}
	fmt.Fprintf(env.Stderr, "MCP at %s://%s/mcp\n", d.HTTP.Scheme(), ln.Addr())
	defer notify(ctx, env)()
	return d.HTTP.Serve(ctx, ln)
}
