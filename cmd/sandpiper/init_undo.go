package main

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/cli"
	"github.com/sandpiper-mcp/sandpiper/internal/clientconfig"
	"github.com/sandpiper-mcp/sandpiper/internal/config"
)

// runInitUndo undoes all changes of init; with --dry-run it lists the copies.
func runInitUndo(env *cli.Env, clients clientconfig.Env, o initOptions) error {
	p, err := newInitPlan(o, clients)
	if err != nil {
		return err
	}
	if o.dry {
		copies, err := p.record.Copies()
		if err != nil {
			return err
		}
		return listCopies(env, copies)
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
			env.PrintDone("%s %s", p.short(u.Path), u.Done)
		case u.Kept && (filepath.Ext(u.Path) == ".yaml" || filepath.Base(u.Path) == config.SchemaFile): // no file of a client
			if !env.JSON {
				env.Printf("%s was kept: %s\n", cli.VisibleName(p.short(u.Path)), u.Left)
			}
		default:
			left++
			if !env.JSON {
				env.Warn(p.short(u.Path) + " was left unchanged: " + u.Left)
			}
		}
		list = append(list, undone{u.Path, u.Done, u.Left})
	}
	switch {
	case env.JSON:
		err = env.WriteJSON(map[string]any{"success": left == 0, "files": list})
	case len(all) == 0:
		env.Printf("There is nothing to undo.\n")
	}
	if err == nil && left > 0 {
		return cli.Exit(cli.ExitFailed)
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

func listCopies(env *cli.Env, copies []string) error {
	if env.JSON {
		return env.WriteJSON(map[string]any{"success": true, "backups": append([]string{}, copies...)})
	}
	for _, path := range copies {
		env.Printf("would restore from %s\n", cli.VisibleName(path))
	}
	return nil
}
