package main

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/clientconfig"
	"github.com/sandpiper-mcp/sandpiper/internal/config"
)

// runInitUndo undoes all changes of init; with --dry-run it lists the copies.
func (a *app) runInitUndo(env clientconfig.Env, o initOptions) error {
	p, err := newInitPlan(o, env)
	if err != nil {
		return err
	}
	if o.dry {
		copies, err := p.record.Copies()
		if err != nil {
			return err
		}
		return a.listCopies(copies)
	}
	all, err := p.record.Undo(schemaInUse)
	if err != nil {
		return err
	}
	type undone struct {
		File string `json:"file"`
		Done string `json:"done,omitempty"`
		Left string `json:"left,omitempty"`
	}
	list := []undone{}
	left := 0
	for _, u := range all {
		switch {
		case u.Left == "":
			a.printDone("%s %s", p.short(u.Path), u.Done)
		case u.Kept && (filepath.Ext(u.Path) == ".yaml" || filepath.Base(u.Path) == config.SchemaFile): // no file of a client
			if !a.json {
				a.printf("%s was kept: %s\n", visibleName(p.short(u.Path)), u.Left)
			}
		default:
			left++
			if !a.json {
				a.warn(p.short(u.Path) + " was left unchanged: " + u.Left)
			}
		}
		list = append(list, undone{u.Path, u.Done, u.Left})
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

// schemaInUse returns why a JSON Schema is kept: a configuration in the same directory refers to it.
func schemaInUse(path string) string {
	if filepath.Base(path) != config.SchemaFile {
		return ""
	}
	files, _ := filepath.Glob(filepath.Join(filepath.Dir(path), "*.yaml")) // fails for a wrong pattern only
	for _, file := range files {
		if text, err := os.ReadFile(file); err == nil && strings.HasPrefix(string(text), config.SchemaLine) {
			return filepath.Base(file) + " refers to it"
		}
	}
	return ""
}

func (a *app) listCopies(copies []string) error {
	if a.json {
		return a.writeJSON(map[string]any{"success": true, "backups": append([]string{}, copies...)})
	}
	for _, path := range copies {
		a.printf("would restore from %s\n", visibleName(path))
	}
	return nil
}
