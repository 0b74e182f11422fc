package importer

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/cli"
	"github.com/sandpiper-mcp/sandpiper/internal/config/rewrite"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/importer/clientconfig"
)

// apply writes the planned files.
func apply(ctx context.Context, env *cli.Env, p *plan, ask bool) error {
	if len(p.added) > 0 && ask && !env.Confirm(ctx, true, "Write %s?", p.short(p.path)) {
		env.Printf("%s was not written.\n", p.short(p.path))
		p.decline()
	}
	if ctx.Err() != nil {
		return nil
	}
	if len(p.added) > 0 {
		// The schema comes first: undo reverts the last write first, and keeps the schema if the configuration stays.
		if err := cli.WriteSchema(env, p.path, p.text, func(c rewrite.Change) error {
			_,
				err := p.backups.Write(c)
			return err
		}); err != nil {
			return err
		}
		if _, err := p.backups.Write(rewrite.Change{Path: p.path, Old: p.old, New: p.text, Mode: 0o644}); err != nil {
			return err
		}
		env.PrintDone("wrote %s", p.short(p.path))
	}
	if !p.declined {
		if err := writeEnvFile(env, p); err != nil {
			return err
		}
	}
	for i := range p.clients {
		c := &p.clients[i]
		if !c.wanted {
			continue
		}
		if len(c.changes) > 0 && !env.JSON {
			showEdits(env, p, *c, "Changes of")
		}
		if len(c.changes) > 0 && ask && !env.Confirm(ctx, true, "Change %s (%s)?", p.short(c.file.Path), c.client.Name) {
			c.changes = nil
			if ctx.Err() == nil {
				env.Warn("Sandpiper was not added to " + c.client.Name + ", since " + p.short(c.file.Path) + " was not to be changed")
			}
			continue
		}
		if ask && c.approved() && !env.Confirm(ctx, true, "May %s call the tools of Sandpiper without asking (%s)? codex exec refuses "+
			"them otherwise.", c.client.Name, clientconfig.Approval) {
			if ctx.Err() != nil {
				return nil
			}
			c.withoutApproval()
		}
		changeClient(env, p, c)
	}
	return nil
}

// decline plans again without the import: no server is removed from a client then.
func (p *plan) decline() {
	p.added, p.declined, p.options.replace = nil, true, false
	for i := range p.clients {
		if c := &p.clients[i]; c.wanted && c.err == nil {
			c.edits = p.clientEdits(*c)
			c.changes, c.err = changesOf(c.edits)
		}
	}
}

// hasAlready reports an existing entry of Sandpiper in a client, and the settings that it lacks.
func (p *plan) hasAlready(c *target) string {
	text := c.client.Name + " has Sandpiper already"
	if c.refuses {
		text += "; codex exec refuses its tools until its entry in " + p.short(c.file.Path) + " has the line " + clientconfig.Approval
	}
	return text
}

// approved reports whether the planned entry lets the client call the tools without asking.
func (c *target) approved() bool {
	return slices.ContainsFunc(c.edits, func(e *fileEdit) bool { return e.edit.Put != nil && e.edit.Put.Approved })
}

// withoutApproval plans the entry again, so that the client asks before each call.
func (c *target) withoutApproval() {
	for _, e := range c.edits {
		if e.edit.Put != nil {
			e.edit.Put.Approved = false
		}
	}
	c.changes, c.err = changesOf(c.edits)
}

// changeClient writes the files of one client. An error is stored in c.
func changeClient(env *cli.Env, p *plan, c *target) {
	for _, change := range c.changes {
		if c.err != nil {
			break
		}
		var saved string
		if saved, c.err = p.backups.Write(change); c.err != nil {
			break
		}
		message := "changed " + p.short(change.Path)
		c.changed, c.backups = append(c.changed, change.Path), append(c.backups, saved)
		if saved != "" {
			message += "; the original is " + p.short(saved)
		}
		env.PrintDone("%s: %s", c.client.Name, message)
	}
	switch {
	case c.err != nil && !env.JSON:
		env.Warn(c.client.Name + ": " + fault.Sentence(c.err))
	case c.err == nil && len(c.changes) == 0 && c.has:
		env.PrintDone("%s", cli.VisibleName(p.hasAlready(c)))
	}
}

// writeEnvFile implements --env-file: it writes the values of variables that are
// not set elsewhere to .env in the directory of sandpiper.yaml.
func writeEnvFile(env *cli.Env, p *plan) error {
	if !p.options.envFile {
		return nil
	}
	path := filepath.Join(filepath.Dir(p.path), ".env")
	old, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fault.Wrap(fault.Invalid, err, "%s cannot be read", path)
	}
	text := string(old)
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	n := 0
	for _, v := range p.found.Variables {
		if v.File == "" || v.Set || setsVariable(old, v.Name) {
			continue
		}
		quote := "'"
		if strings.Contains(v.Reveal(), quote) {
			quote = `"`
		}
		if strings.ContainsAny(v.Reveal(), quote+"\r\n") {
			env.Warn("the value of " + v.Name + " cannot be written in .env; write it to a file and use ${file:PATH}")
			continue
		}
		text += v.Name + "=" + quote + v.Reveal() + quote + "\n"
		n++
	}
	if n == 0 {
		return nil
	}
	if err := os.Chmod(path, 0o600); err != nil && !errors.Is(err, fs.ErrNotExist) { // before it contains a secret
		return fault.Wrap(fault.Unavailable, err, "the mode of %s cannot be set to 0600", path)
	}
	if _, err := p.backups.Write(rewrite.Change{Path: path, Old: old, New: []byte(text), Mode: 0o600}); err != nil {
		return err
	}
	env.PrintDone("wrote %s to %s; keep it out of version control", cli.Count(n, "value"), p.short(path))
	return nil
}

// setsVariable reports whether a .env file sets a variable to a value.
func setsVariable(text []byte, name string) bool {
	return regexp.MustCompile(`(?m)^\s*(?:export\s+)?` + regexp.QuoteMeta(name) + `\s*=\s*\S`).Match(text)
}
