package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sandpiper-mcp/sandpiper/internal/cli"
	"github.com/sandpiper-mcp/sandpiper/internal/config"
	"github.com/sandpiper-mcp/sandpiper/internal/daemon"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

func serversCommand(env *cli.Env) *cobra.Command {
	edit := func(use, short string, run func(context.Context, string) error) *cobra.Command {
		return &cobra.Command{Use: use, Short: short, Args: cobra.ExactArgs(1),
			RunE: func(cmd *cobra.Command, args []string) error { return run(cmd.Context(), args[0]) }}
	}
	c := cli.Group("servers", "List, add, remove, enable and disable MCP servers",
		&cobra.Command{
			Use: "list", Short: "List the configured servers, their state, and the daemons that use them",
			Long: `List prints the configured servers with the state of their connections in the running
daemons: connected, connecting, failed with the reason, or not connected, as before the
first use. Without a connection it prints the last failure of any command or daemon,
until the server works again. Tenants with credentials of their own have other connections, which are not
listed. Tools of a server that waits for review are accepted with sandpiper tools accept.`,
			Args: cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error { return runServersList(env) },
		},
		serversAddCommand(env),
		edit("remove NAME", "Remove a server from the configuration",
			func(ctx context.Context, name string) error { return runServersRemove(ctx, env, name) }),
		edit("enable NAME", "Enable a disabled server", func(ctx context.Context,
			name string) error {
			return runServersDisable(ctx, env, name, false)
		}),
		edit("disable NAME", "Disable a server, and keep its entry",
			func(ctx context.Context, name string) error { return runServersDisable(ctx, env, name, true) }),
	)
	c.Long = `The commands edit your configuration file (--config, SANDPIPER_CONFIG, or
sandpiper.yaml in your configuration directory), and keep its comments. Running
daemons on the same data directory apply the change within a second, without ending
calls. A project's file is edited by hand.`
	return c
}

// listedServer is a configured server.
type listedServer struct {
	Name        string   `json:"name"`
	Enabled     bool     `json:"enabled"`
	Project     bool     `json:"project,omitempty"` // added by a trusted file of the project
	Target      string   `json:"target"`            // command, URL or document, as written
	Tools       int      `json:"tool_count"`
	Quarantined int      `json:"quarantined,omitempty"`
	Notes       []string `json:"notes,omitempty"` // tools that were left out or changed, and why
	// State is disabled, failed, waiting_for_review, connecting, connected or not_connected; "" if no
	// daemon has the server.
	State       string       `json:"state,omitempty"`
	Connections []connection `json:"connections,omitempty"`
	// LastFailure is nil if the last attempt of any process to use the server succeeded.
	LastFailure *daemon.Failure `json:"last_failure,omitempty"`
	unlisted    bool            // its tools were never listed
}

// connection is the state of a server in a daemon.
type connection struct {
	PID int `json:"pid"`
	daemon.ServerState
}

func runServersList(env *cli.Env) error {
	return cli.WithDaemon(env, func(d *daemon.Daemon) error {
		daemons, err := daemon.Instances(d)
		if err != nil {
			return err
		}
		servers := listServers(d, daemons)
		path, text, err := serversFile(env)
		if err != nil {
			return err
		}
		entries, err := config.EntriesIn(path, text, daemon.Sections(env.Features)...)
		if err != nil {
			return err
		}
		for _, e := range entries {
			if e.Disabled && !slices.ContainsFunc(servers, func(s listedServer) bool { return s.Name == e.Name }) {
				servers = append(servers, listedServer{Name: e.Name, Target: target(e.Server), State: "disabled"})
			}
		}
		if env.JSONLines {
			return cli.WriteList(env, "servers", servers)
		}
		if env.JSON {
			return env.WriteJSON(map[string]any{"servers": append([]listedServer{}, servers...),
				"daemons": append([]daemon.Instance{}, daemons...)})
		}
		printServers(env, servers, path)
		for _, i := range daemons {
			env.Printf("%s\n", cli.VisibleName(describeDaemon(i)))
		}
		return nil
	})
}

func listServers(d *daemon.Daemon, daemons []daemon.Instance) (all []listedServer) {
	now := d.Servers.Catalog.Now()
	for _, s := range d.Configured() {
		v, _ := now.Server(s.Name)
		l := listedServer{
			Name:        s.Name,
			Enabled:     true,
			Project:     s.Project,
			Target:      target(s),
			Tools:       v.Tools,
			Quarantined: v.Quarantined,
			Notes:       v.Notes,
			unlisted:    v.Listed.IsZero(),
		}
		for _, i := range daemons {
			for _, state := range i.Servers {
				if state.Name == s.Name {
					l.Connections = append(l.Connections, connection{i.PID, state})
				}
			}
		}
		if f, ok := daemon.LastFailure(d, s); ok {
			l.LastFailure = &f
		}
		l.State = l.state(v.Unreviewed || v.Quarantined > 0)
		all = append(all, l)
	}
	return all
}

// state returns the state that matters most to the operator.
func (l *listedServer) state(review bool) string {
	for _, state := range []string{"failed", "waiting_for_review", "connecting", "connected"} {
		if review && state == "waiting_for_review" || l.isIn(state) {
			return state
		}
	}
	if l.LastFailure != nil {
		return "failed"
	}
	if l.isIn("not_connected") {
		return "not_connected"
	}
	return ""
}

// isIn reports whether a server is in a state in some daemon.
func (l *listedServer) isIn(state string) bool {
	return slices.ContainsFunc(l.Connections, func(c connection) bool { return c.State == state })
}

// target describes what a server connects to, with references to secrets as written.
func target(s config.Server) string {
	switch {
	case s.API != nil:
		return strings.TrimSuffix(s.API.Type+" "+s.API.Document, " ")
	case s.Command != "":
		return strings.Join(append([]string{s.Command}, s.Args...), " ")
	}
	return s.URL
}

func printServers(env *cli.Env, servers []listedServer, path string) {
	for _, s := range servers {
		text := cli.Count(s.Tools, "tool")
		if s.Quarantined > 0 {
			text += fmt.Sprintf(", %d quarantined", s.Quarantined)
		}
		unlisted := s.Enabled && s.State == "" && s.Tools == 0 && s.unlisted
		switch {
		case !s.Enabled:
			text = ""
		case unlisted:
			text = "not listed yet"
		}
		if s.Project {
			text += ", of the project"
		}
		env.Printf("%-20s %-18s %-24s %s\n", cli.VisibleName(s.Name), strings.ReplaceAll(cmp.Or(s.State, "no daemon"), "_", " "), text,
			cli.VisibleName(s.Target))
		if unlisted {
			env.Printf("  sandpiper tools sync %s lists its tools, or prints why it cannot\n", cli.VisibleName(s.Name))
		}
		for _, note := range s.Notes {
			env.Printf("  %s\n", cli.VisibleName(note))
		}
		for _, c := range s.Connections {
			if c.State == s.State && c.Reason == "" {
				continue
			}
			env.Printf("  %s\n", cli.VisibleName(describeConnection(c)))
		}
		if f := s.LastFailure; f != nil && !s.isIn("failed") {
			env.Printf("  %s\n", cli.VisibleName(describeFailure(*f)))
		}
	}
	env.PrintEmpty(len(servers), "no server is configured in %s; add one with `sandpiper servers add`", path)
}

// describeConnection describes the state of a server in a daemon, with the reason of a failure.
func describeConnection(c connection) string {
	text := fmt.Sprintf("%s in daemon %d", strings.ReplaceAll(c.State, "_", " "), c.PID)
	if !c.Since.IsZero() {
		text += " since " + c.Since.Local().Format(time.DateTime)
	}
	if c.Reason != "" {
		text += ": " + c.Reason
	}
	return withHint(text, c.Hint)
}

// describeFailure describes the last failure of a server.
func describeFailure(f daemon.Failure) string {
	return withHint(fmt.Sprintf("last failed at %s: %s", f.At.Local().Format(time.DateTime), f.Reason), f.Hint)
}

func withHint(text, hint string) string {
	if hint == "" {
		return text
	}
	return text + "; " + hint
}

// describeDaemon describes the last reload of a daemon.
func describeDaemon(i daemon.Instance) string {
	text := fmt.Sprintf("daemon %d since %s", i.PID, i.Started.Local().Format(time.DateTime))
	switch {
	case i.Error != "":
		text += fmt.Sprintf(" keeps its previous configuration: %s", strings.ReplaceAll(i.Error, "\n", "; "))
	case !i.Reloaded.IsZero():
		text += ", reloaded " + i.Reloaded.Local().Format(time.DateTime)
	}
	for _, w := range i.Warnings {
		text += "; " + w
	}
	return text
}

// serversFile returns the user's configuration file and its text, nil if it does not exist.
func serversFile(env *cli.Env) (path string, text []byte, err error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", nil, fmt.Errorf("find the working directory: %w", err)
	}
	path, err = config.File(config.Sources{Dir: dir, File: env.ConfigFile, Environ: os.Environ()})
	if err != nil {
		return "", nil, err
	}
	fi, err := os.Stat(path)
	if os.IsNotExist(err) {
		return path, nil, nil
	}
	if err == nil && !fi.Mode().IsRegular() { // opening a pipe would block
		return "", nil, fault.New(fault.Invalid, "%s is not a regular file", path)
	}
	if err == nil {
		text, err = os.ReadFile(path)
	}
	if err != nil {
		return "", nil, fault.Wrap(fault.Invalid, err, "%s cannot be read", path)
	}
	return path, text, nil
}
