package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/clientconfig"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// self is what we are called in the configuration of clients.
const self = "sandpiper"

// initClient is a client that may be given Sandpiper.
type initClient struct {
	client  clientconfig.Client
	file    clientconfig.File // "" path: it has no file of this kind
	snippet string
	wanted  bool // by --apply
	has     bool // Sandpiper already
	writes  []clientconfig.Write
	changed []string // files
	backups []string // of these, "" for none
	err     error
}

// client plans what becomes of one client.
func (p *initPlan) client(c clientconfig.Client) initClient {
	t := initClient{client: c}
	file, ok := clientconfig.Target(p.env, c, p.options.here)
	t.wanted = slices.Contains(p.options.apply, c.ID) || slices.Contains(p.options.apply, "all")
	if !ok {
		t.wanted = t.wanted && !slices.Contains(p.options.apply, "all")
		if t.wanted {
			t.err = fault.New(fault.Invalid, "%s has no configuration of a project", c.Name).WithHint("leave --here out")
		}
		return t
	}
	t.file = file
	t.snippet = string(file.Snippet(self, p.launch(c)))
	for _, l := range p.found.Left {
		t.has = t.has || l.From.File.SameTable(file) && l.Why == clientconfig.Ourselves
	}
	if t.wanted {
		t.writes, t.err = p.edits(c, t)
	}
	return t
}

// edits are the changes of a client's files: ourselves into one, and with
// --replace what we now have out of all.
func (p *initPlan) edits(c clientconfig.Client, t initClient) ([]clientconfig.Write, error) {
	var paths []string
	parts := map[string][]clientconfig.Edited{}
	add := func(f clientconfig.File, e clientconfig.Edit) {
		if parts[f.Path] == nil {
			paths = append(paths, f.Path)
		}
		i := slices.IndexFunc(parts[f.Path], func(x clientconfig.Edited) bool { return x.File.SameTable(f) })
		if i < 0 {
			parts[f.Path] = append(parts[f.Path], clientconfig.Edited{File: f, Edit: e})
			return
		}
		parts[f.Path][i].Edit.Drop = append(parts[f.Path][i].Edit.Drop, e.Drop...)
	}
	if !t.has {
		add(t.file, clientconfig.Edit{Put: map[string][]byte{self: t.file.Entry(self, p.launch(c))}})
	}
	for i, s := range p.found.Servers {
		for _, from := range s.From {
			if p.options.replace && from.File.Client == c && p.status[i] != isAnother {
				add(from.File, clientconfig.Edit{Drop: []string{from.Name}})
			}
		}
	}
	var writes []clientconfig.Write
	for _, path := range paths {
		old, err := os.ReadFile(path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fault.Wrap(fault.Unavailable, err, "%s cannot be read", path)
		}
		text := old
		for _, e := range parts[path] {
			if text, err = e.File.Edit(text, e.Edit); err != nil {
				return nil, err
			}
		}
		writes = append(writes, clientconfig.Write{Path: path, Old: old, New: text, Mode: 0o600, Edits: parts[path]})
	}
	return writes, nil
}

// apply changes the files of one client. What goes wrong stays with it.
func (a *app) apply(p *initPlan, c *initClient) {
	for _, w := range c.writes {
		var backup string
		if c.err == nil {
			backup, c.err = p.record.Do(w)
		}
		if c.err != nil {
			break
		}
		done := "changed " + p.short(w.Path)
		c.changed, c.backups = append(c.changed, w.Path), append(c.backups, backup)
		if backup != "" {
			done += "; as it was before: " + filepath.Base(backup)
		}
		a.say("%s: %s", c.client.Name, done)
	}
	switch {
	case c.err != nil && !a.json:
		a.warn(c.client.Name + ": " + sentenceOf(c.err))
	case c.err == nil && len(c.writes) == 0 && c.has:
		a.say("%s has Sandpiper already", c.client.Name)
	}
}

// writeValues writes the values of variables that nothing else sets to .env
// beside sandpiper.yaml, if that was asked for.
func (a *app) writeValues(p *initPlan) error {
	if !p.options.envFile {
		return nil
	}
	path := filepath.Join(filepath.Dir(p.path), ".env")
	old, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fault.Wrap(fault.Invalid, err, "%s could not be read", path)
	}
	text := string(old)
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	count := 0
	for _, v := range p.found.Variables {
		if v.From == "" || v.Set || sets(old, v.Name) {
			continue
		}
		quote := "'"
		if strings.Contains(v.Reveal(), quote) {
			quote = `"`
		}
		if strings.ContainsAny(v.Reveal(), quote+"\r\n") {
			a.warn("the value of " + v.Name + " cannot be written in .env; put it into a file and write ${file:PATH}")
			continue
		}
		text += v.Name + "=" + quote + v.Reveal() + quote + "\n"
		count++
	}
	if count == 0 {
		return nil
	}
	if err := os.Chmod(path, 0o600); err != nil && !errors.Is(err, fs.ErrNotExist) { // before there is a secret in it
		return fault.Wrap(fault.Unavailable, err, "%s cannot be made readable for you alone", path)
	}
	if _, err := p.record.Do(clientconfig.Write{Path: path, Old: old, New: []byte(text), Mode: 0o600}); err != nil {
		return err
	}
	a.say("wrote %d values to %s; keep it out of version control", count, p.short(path))
	return nil
}

// sets reports whether a .env file gives a variable a value.
func sets(env []byte, name string) bool {
	return regexp.MustCompile(`(?m)^\s*(?:export\s+)?` + regexp.QuoteMeta(name) + `\s*=\s*\S`).Match(env)
}

func (a *app) runInitUndo(env clientconfig.Env, o initOptions) error {
	p, err := newPlan(o, env)
	if err != nil {
		return err
	}
	if o.dry {
		backups, err := p.record.Backups()
		if err == nil {
			err = a.listBackups(backups)
		}
		return err
	}
	all, err := p.record.Undo()
	if err != nil {
		return err
	}
	left := 0
	type undone struct {
		File string `json:"file"`
		Done string `json:"done,omitempty"`
		Left string `json:"left,omitempty"`
	}
	list := []undone{}
	for _, u := range all {
		if u.Left != "" {
			left++
			if !a.json {
				a.warn(p.short(u.Path) + " was left: " + u.Left)
			}
		} else {
			a.say("%s %s", p.short(u.Path), u.How)
		}
		list = append(list, undone{u.Path, u.How, u.Left})
	}
	switch {
	case a.json:
		err = a.writeJSON(map[string]any{"success": left == 0, "files": list})
	case len(all) == 0:
		a.printf("There is nothing to undo.\n")
	}
	if err == nil && left > 0 {
		return exit(exitFailed)
	}
	return err
}

func (a *app) listBackups(backups []string) error {
	if a.json {
		return a.writeJSON(map[string]any{"success": true, "backups": append([]string{}, backups...)})
	}
	for _, path := range backups {
		a.printf("%s\n", visibleName(fmt.Sprintf("would restore from %s", path)))
	}
	return nil
}
