package importer

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/cli"
	"github.com/sandpiper-mcp/sandpiper/internal/config"
	"github.com/sandpiper-mcp/sandpiper/internal/config/rewrite"
	"github.com/sandpiper-mcp/sandpiper/internal/daemon"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/importer/clientconfig"
)

// plan contains the imported servers and the changes that init will make.
type plan struct {
	env      clientconfig.Env
	options  options
	found    clientconfig.Found
	path     string   // of sandpiper.yaml
	old      []byte   // its content; nil for no file
	text     []byte   // its new content
	existing int      // number of servers in old
	status   []string // of each server in found
	added    []config.Server
	declined bool // the user did not confirm the import
	clients  []target
	backups  clientconfig.Backups
	features []config.Section // of the program
}

// Values of plan.status.
const (
	statusNew     = "new"
	statusThere   = "there"   // sandpiper.yaml has the same server
	statusAnother = "another" // sandpiper.yaml has another server with that name
)

// newPlan returns a plan without paths.
func newPlan(o options, clients clientconfig.Env) (*plan, error) {
	dir := config.UserDir(os.Environ())
	if dir == "" {
		return nil, fault.New(fault.Invalid, "the configuration directory is unknown").WithHint("set HOME or XDG_CONFIG_HOME")
	}
	return &plan{env: clients, options: o, backups: clientconfig.Backups{Dir: dir, Env: clients}}, nil
}

// fullPlan reads all configuration and writes nothing.
func fullPlan(env *cli.Env, o options, clients clientconfig.Env) (*plan, error) {
	p, err := newPlan(o, clients)
	if err != nil {
		return nil, err
	}
	if p.path = filepath.Join(clients.Dir, "sandpiper.yaml"); !o.here {
		if p.path, err = config.File(config.Sources{Dir: clients.Dir, File: env.ConfigFile, Environ: os.Environ()}); err != nil {
			return nil, err
		}
	}
	p.features = daemon.Sections(env.Features)
	p.found = clientconfig.Find(clients, o.here)
	if p.old, err = os.ReadFile(p.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fault.Wrap(fault.Invalid, err, "%s cannot be read", p.path)
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

// compare sets the status of each server and the new content of sandpiper.yaml.
func (p *plan) compare() error {
	existing, err := config.ServersIn(p.path, p.old, p.features...)
	if err != nil {
		return err
	}
	p.existing = len(existing)
	for _, s := range p.found.Servers {
		server := configServer(s, filepath.Dir(p.path))
		i := slices.IndexFunc(existing, func(e config.Server) bool { return e.Name == s.Name })
		switch {
		case i < 0:
			p.status = append(p.status, statusNew)
			p.added = append(p.added, server)
		case sameServer(existing[i], server):
			p.status = append(p.status, statusThere)
		default:
			p.status = append(p.status, statusAnother)
		}
	}
	p.text = p.old
	if len(p.added) == 0 {
		return nil
	}
	if p.text, err = config.AddServers(p.path, p.old, p.added, p.features...); err == nil && p.old == nil {
		p.text = append([]byte(config.SchemaLine+"# MCP servers that code may import: docs/servers.md\n"), p.text...)
	}
	if err != nil {
		snippet, _ := config.AddServers(p.path, nil, p.added, p.features...)
		return fault.Wrap(fault.Unavailable, err, "%s", fault.Message(err)).
			WithHint("%s; or add this by hand:\n%s", fault.Hint(err), snippet)
	}
	return nil
}

// sameServer reports whether a server in sandpiper.yaml equals an imported one,
// apart from settings that clients do not have.
func sameServer(existing, imported config.Server) bool {
	existing.Category, existing.Idle, existing.Concurrency, existing.Timeout = imported.Category, imported.Idle, imported.Concurrency,
		imported.Timeout
	return existing.Equal(imported)
}

func configServer(s clientconfig.Server, dir string) config.Server {
	c := config.Server{
		Name:      s.Name,
		Command:   s.Command,
		Args:      s.Args,
		Env:       s.Env,
		Dir:       s.Dir,
		URL:       s.URL,
		Headers:   s.Headers,
		Transport: s.Transport,
		Timeout:   s.Timeout,
	}
	if c.Dir == "" {
		c.Dir = dir
	}
	return c
}

// launch returns the command line with which a client starts Sandpiper. The path
// is absolute, since desktop applications do not have the PATH of a shell, except
// in a project file, which other people use.
func (p *plan) launch(c clientconfig.Client) clientconfig.Launch {
	l := clientconfig.Launch{Command: "sandpiper", Args: []string{"serve"}}
	onPath, err := exec.LookPath("sandpiper")
	switch {
	case p.env.Self == "" || p.options.here && err == nil:
	case err == nil && clientconfig.SameFile(onPath, p.env.Self):
		l.Command = onPath
	default:
		l.Command = p.env.Self
	}
	if p.options.here && c.ID == "cursor" {
		l.Args = append(l.Args, "--dir", "${workspaceFolder}") // --config would bypass trust
	}
	if !p.options.here && p.path != filepath.Join(p.backups.Dir, "sandpiper.yaml") {
		l.Args = append(l.Args, "--config", p.path)
	}
	l.Approved = c.ID == "codex" && !p.options.here // other people use the file of a project
	return l
}

// target is a client to which Sandpiper can be added.
type target struct {
	client  clientconfig.Client
	file    clientconfig.File // no path: the client has no such file
	snippet string
	wanted  bool        // named by --apply
	has     bool        // the file has an entry of Sandpiper
	refuses bool        // codex exec refuses the tools of that entry
	edits   []*fileEdit // of the changes
	changes []rewrite.Change
	changed []string // paths of the written files
	backups []string // of each written file, "" if it did not exist
	err     error
}

// applied reports whether the client's files were changed as planned.
func (c *target) applied() bool { return c.wanted && c.err == nil && len(c.changed) > 0 }

// client plans the changes of one client.
func (p *plan) client(c clientconfig.Client) target {
	t := target{client: c}
	file, ok := clientconfig.Target(p.env, c, p.options.here)
	all := slices.Contains(p.options.apply, "all")
	t.wanted = all || slices.Contains(p.options.apply, c.ID)
	if !ok {
		if t.wanted = t.wanted && !all; t.wanted {
			t.err = fault.New(fault.Invalid, "%s has no project configuration", c.Name).WithHint("omit --here")
		}
		return t
	}
	t.file = file
	t.snippet = string(file.Snippet(p.launch(c)))
	for _, s := range p.found.Skipped {
		if s.SameTable(file) && s.Reason == clientconfig.ReasonSandpiper {
			t.has, t.refuses = true, clientconfig.LacksApproval(s.Origin)
		}
	}
	if t.wanted {
		t.edits = p.clientEdits(t)
		t.changes, t.err = changesOf(t.edits)
	}
	return t
}

// fileEdit is an edit of one table of a file.
type fileEdit struct {
	file    clientconfig.File
	project string // whose servers the table has; "" for all
	edit    clientconfig.Edit
}

// clientEdits returns the edits of a client's files: Sandpiper is added to
// one, and with --replace the imported servers are removed from all.
func (p *plan) clientEdits(t target) (edits []*fileEdit) {
	if !t.has {
		l := p.launch(t.client)
		edits = append(edits, &fileEdit{file: t.file, edit: clientconfig.Edit{Put: &l}})
	}
	for i, s := range p.found.Servers {
		for _, from := range s.From {
			if !p.options.replace || from.File.Client != t.client || p.status[i] == statusAnother {
				continue
			}
			j := slices.IndexFunc(edits, func(e *fileEdit) bool { return e.file.SameTable(from.File) })
			if j < 0 {
				j = len(edits)
				edits = append(edits, &fileEdit{file: from.File, project: from.Project})
			}
			edits[j].edit.Drop = append(edits[j].edit.Drop, from.Name)
		}
	}
	return edits
}

// changesOf applies edits to the content of their files, and writes nothing.
func changesOf(edits []*fileEdit) ([]rewrite.Change, error) {
	var changes []rewrite.Change
	for _, e := range edits {
		i := slices.IndexFunc(changes, func(c rewrite.Change) bool { return c.Path == e.file.Path })
		if i < 0 {
			old, err := e.file.Read()
			if err != nil {
				return nil, err
			}
			i = len(changes)
			changes = append(changes, rewrite.Change{Path: e.file.Path, Old: old, New: old, Mode: 0o600})
		}
		var err error
		if changes[i].New, err = e.file.Edit(changes[i].New, e.edit); err != nil {
			return nil, err
		}
	}
	return changes, nil
}

// options are the flags of init.
type options struct {
	here, dry, yes, replace, envFile, undo bool
	apply                                  []string
}

// check rejects unknown clients and conflicting options.
func (o options) check() error {
	if o.replace && len(o.apply) == 0 {
		return cli.Usagef("--replace requires --apply: it removes servers from the clients named there")
	}
	for _, id := range o.apply {
		if _, ok := clientconfig.ClientByID(id); !ok && id != "all" {
			var ids []string
			for _, c := range clientconfig.Clients {
				ids = append(ids, c.ID)
			}
			return cli.Usagef("--apply: unknown client %q; use %s or all", id, strings.Join(ids, ", "))
		}
	}
	return nil
}
