package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sandpiper-mcp/sandpiper/internal/clientconfig"
	"github.com/sandpiper-mcp/sandpiper/internal/config"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

func (a *app) initCommand() *cobra.Command {
	var o initOptions
	c := &cobra.Command{
		Use:   "init",
		Short: "Take over the MCP servers of other clients",
		Long: `Init finds the MCP servers in the configuration of Claude Code, Claude Desktop,
Cursor, VS Code, Codex and Gemini CLI, shows what it takes, and writes them to
sandpiper.yaml in your configuration directory. Servers of a file in a project
are taken only with --here, into that project's sandpiper.yaml, which is read once
you trust it (sandpiper trust).

Secrets are not written: each becomes a variable, and init says which to set.
What stands in sandpiper.yaml stays. With --apply it also adds Sandpiper to
clients. Every changed file is copied first, and --undo takes all back.`,
		Example: `  sandpiper init --dry-run
  sandpiper init
  sandpiper init --apply cursor,codex --replace
  sandpiper init --undo`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			env, err := initEnv()
			if err != nil {
				return err
			}
			if o.undo {
				return a.runInitUndo(env, o)
			}
			return a.runInit(cmd.Context(), o, env)
		},
	}
	f := c.Flags()
	f.BoolVar(&o.here, "here", false, "write sandpiper.yaml here, and take the servers of this project's files as well")
	f.BoolVar(&o.dry, "dry-run", false, "show what would be done, and do nothing")
	f.BoolVarP(&o.yes, "yes", "y", false, "do not ask")
	f.StringSliceVar(&o.apply, "apply", nil, "add Sandpiper to `CLIENT,...`: claude-code, claude-desktop, cursor, vscode, codex, gemini, or all that are found")
	f.BoolVar(&o.replace, "replace", false, "with --apply: take the servers out of the client that Sandpiper now has")
	f.BoolVar(&o.envFile, "env-file", false, "write the values of variables to .env beside sandpiper.yaml, for your eyes only")
	f.BoolVar(&o.undo, "undo", false, "take back what init changed")
	return c
}

type initOptions struct {
	here, dry, yes, replace, envFile, undo bool
	apply                                  []string
}

// check refuses what does not go together.
func (o initOptions) check() error {
	if o.replace && len(o.apply) == 0 {
		return usagef("--replace goes with --apply: it takes servers out of the clients named there")
	}
	for _, id := range o.apply {
		if _, ok := clientconfig.Named(id); !ok && id != "all" {
			var ids []string
			for _, c := range clientconfig.Clients {
				ids = append(ids, c.ID)
			}
			return usagef("--apply: there is no client %q; known are %s and all", id, strings.Join(ids, ", "))
		}
	}
	return nil
}

// initEnv is where the person works who runs this process.
func initEnv() (clientconfig.Env, error) {
	env := clientconfig.Env{OS: runtime.GOOS, Lookup: os.LookupEnv}
	var err error
	if env.Home, err = os.UserHomeDir(); err == nil {
		env.Dir, err = os.Getwd()
	}
	if err != nil || !filepath.IsAbs(env.Home) {
		return env, fault.Wrap(fault.Invalid, err, "there is no home directory to look in").WithHint("set HOME")
	}
	env.Self, _ = os.Executable()
	if strings.Contains(filepath.ToSlash(env.Self), "/go-build") {
		env.Self = "" // of go run, gone in a moment
	}
	return env, nil
}

// initPlan is what init is going to do.
type initPlan struct {
	env     clientconfig.Env
	options initOptions
	found   clientconfig.Found
	path    string // of sandpiper.yaml
	old     []byte // nil for no file
	text    []byte // what it will be
	had     int    // servers in it
	status  []string
	fresh   []config.Server
	clients []initClient
	record  clientconfig.Record
}

// What happens to a server.
const (
	isNew     = "new"
	isThere   = "there"   // it stands in sandpiper.yaml as it would be written
	isAnother = "another" // what stands there under its name is another
)

func (a *app) runInit(ctx context.Context, o initOptions, env clientconfig.Env) error {
	if err := o.check(); err != nil {
		return err
	}
	ask := isTerminal(a.stdin) && !o.yes && !a.json && !o.dry
	if len(o.apply) > 0 && !ask && !o.yes && !o.dry {
		return usagef("--apply changes the files of other programs, and there is nobody to ask; say --yes")
	}
	p, err := a.plan(o, env)
	if err != nil {
		return err
	}
	if !a.json {
		a.showPlan(p)
	}
	if !o.dry {
		if err := a.carryOut(ctx, p, ask); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	if a.json {
		err = a.writeJSON(p.answer())
	} else {
		a.showNext(p)
	}
	if err == nil && slices.ContainsFunc(p.clients, func(c initClient) bool { return c.err != nil }) {
		return exit(exitFailed)
	}
	return err
}

// newPlan is a plan without content: where things stand.
func newPlan(o initOptions, env clientconfig.Env) (*initPlan, error) {
	user := config.UserDir(os.Environ())
	if user == "" {
		return nil, fault.New(fault.Invalid, "there is no configuration directory").WithHint("set HOME or XDG_CONFIG_HOME")
	}
	return &initPlan{env: env, options: o, path: filepath.Join(user, "sandpiper.yaml"),
		record: clientconfig.Record{Path: filepath.Join(user, "init.json")}}, nil
}

// plan looks at everything and changes nothing.
func (a *app) plan(o initOptions, env clientconfig.Env) (*initPlan, error) {
	p, err := newPlan(o, env)
	if err != nil {
		return nil, err
	}
	switch {
	case o.here:
		p.path = filepath.Join(env.Dir, "sandpiper.yaml")
	case a.config != "":
		if p.path, err = filepath.Abs(a.config); err != nil {
			return nil, fmt.Errorf("find the working directory: %w", err)
		}
	}
	p.found = clientconfig.Find(env, o.here)
	if p.old, err = os.ReadFile(p.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fault.Wrap(fault.Invalid, err, "%s could not be read", p.path)
	}
	if err := p.compare(); err != nil {
		return nil, err
	}
	for _, c := range clientconfig.Clients {
		if slices.Contains(p.found.Clients, c) || slices.Contains(o.apply, c.ID) {
			p.clients = append(p.clients, p.client(c))
		}
	}
	return p, nil
}

// compare holds what was found against what stands in sandpiper.yaml.
func (p *initPlan) compare() error {
	had, err := config.ServersIn(p.path, p.old)
	if err != nil {
		return err
	}
	p.had = len(had)
	for _, s := range p.found.Servers {
		one := configured(s, filepath.Dir(p.path))
		i := slices.IndexFunc(had, func(h config.Server) bool { return h.Name == s.Name })
		switch {
		case i < 0:
			p.status = append(p.status, isNew)
			p.fresh = append(p.fresh, one)
		case sameBut(had[i], one):
			p.status = append(p.status, isThere)
		default:
			p.status = append(p.status, isAnother)
		}
	}
	p.text = p.old
	if len(p.fresh) == 0 {
		return nil
	}
	if p.text, err = config.AddServers(p.path, p.old, p.fresh); err == nil && p.old == nil {
		p.text = append([]byte("# MCP servers that code may import: docs/servers.md\n"), p.text...)
	}
	if err != nil {
		add, _ := config.AddServers(p.path, nil, p.fresh)
		return fault.Wrap(fault.Unavailable, err, "%s", fault.Message(err)).
			WithHint("%s; or add this by hand:\n%s", fault.Hint(err), add)
	}
	return nil
}

// sameBut reports whether a server is the one that would be written, whatever
// was added to it since that clients have no words for.
func sameBut(had, one config.Server) bool {
	had.Category, had.Idle, had.Concurrency, had.Timeout = one.Category, one.Idle, one.Concurrency, one.Timeout
	return had.Equal(one)
}

func configured(s clientconfig.Server, dir string) config.Server {
	c := config.Server{Name: s.Name, Command: s.Command, Args: s.Args, Env: s.Env, Dir: s.Dir, URL: s.URL,
		Headers: s.Headers, Transport: s.Transport, Timeout: s.Timeout}
	if c.Dir == "" {
		c.Dir = dir
	}
	return c
}

// launch is how a client is to start us. Programs with windows do not have a
// shell's PATH, so it is an absolute one, but in a file that others share.
func (p *initPlan) launch(c clientconfig.Client) clientconfig.Launch {
	l := clientconfig.Launch{Command: "sandpiper", Args: []string{"serve"}}
	onPath, err := exec.LookPath("sandpiper")
	switch {
	case p.env.Self == "" || p.options.here && err == nil:
	case err == nil && sameFile(onPath, p.env.Self):
		l.Command = onPath
	default:
		l.Command = p.env.Self
	}
	if p.options.here && c.ID == "cursor" {
		l.Args = append(l.Args, "--dir", "${workspaceFolder}") // --config would do without trust
	}
	if !p.options.here && p.path != filepath.Join(filepath.Dir(p.record.Path), "sandpiper.yaml") {
		l.Args = append(l.Args, "--config", p.path)
	}
	return l
}

func sameFile(a, b string) bool {
	x, err := os.Stat(a)
	y, err2 := os.Stat(b)
	return err == nil && err2 == nil && os.SameFile(x, y)
}

// carryOut writes what was planned.
func (a *app) carryOut(ctx context.Context, p *initPlan, ask bool) error {
	if len(p.fresh) > 0 {
		if ask && !a.confirm(ctx, true, "Write %s?", p.short(p.path)) {
			p.fresh = nil
			a.printf("Nothing was written.\n")
			return nil
		}
		if _, err := p.record.Do(clientconfig.Write{Path: p.path, Old: p.old, New: p.text, Mode: 0o644}); err != nil {
			return err
		}
		a.say("wrote %s", p.short(p.path))
	}
	if err := a.writeValues(p); err != nil {
		return err
	}
	for i := range p.clients {
		c := &p.clients[i]
		if !c.wanted {
			continue
		}
		if len(c.writes) > 0 && ask && !a.confirm(ctx, false, "Change %s (%s)?", p.short(c.file.Path), c.client.Name) {
			c.writes = nil
			continue
		}
		a.apply(p, c)
	}
	return nil
}

// say tells a person what was done.
func (a *app) say(format string, args ...any) {
	if !a.json {
		a.printf("%s %s\n", styleFor(a.stdout).green("✓"), visibleName(fmt.Sprintf(format, args...)))
	}
}

// confirm asks on a terminal; an empty answer is the usual one.
func (a *app) confirm(ctx context.Context, usual bool, format string, args ...any) bool {
	choice := "[y/N]"
	if usual {
		choice = "[Y/n]"
	}
	a.printf("%s %s ", visibleName(fmt.Sprintf(format, args...)), choice)
	line, answered := a.line(ctx)
	switch strings.ToLower(line) {
	case "y", "yes":
		return true
	case "":
		return usual && answered
	}
	return false
}
