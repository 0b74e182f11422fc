package importer

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/cli"
	"github.com/sandpiper-mcp/sandpiper/internal/config"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/importer/clientconfig"
)

// runUndo undoes all changes of init; with --dry-run it lists what it would do.
func runUndo(env *cli.Env, clients clientconfig.Env, o options) error {
	p, err := newPlan(o, clients)
	if err != nil {
		return err
	}
	all, err := p.backups.Undo(o.dry, schemaInUse)
	if err != nil {
		return err
	}
	saved, left := []string{}, 0
	for _, u := range all {
		if u.Backup != "" {
			saved = append(saved, u.Backup)
		}
		kept := u.Kept && (filepath.Ext(u.Path) == ".yaml" || filepath.Base(u.Path) == config.SchemaFile)
		if u.Left != "" && !kept {
			left++
		}
		if !env.JSON {
			showUndone(env, p.short(u.Path), u, o.dry, kept)
		}
	}
	switch {
	case env.JSON && o.dry:
		return env.WriteJSON(map[string]any{"success": true, "backups": saved, "files": append([]clientconfig.Undone{}, all...)})
	case env.JSON:
		err = env.WriteJSON(map[string]any{"success": left == 0, "files": append([]clientconfig.Undone{}, all...)})
	case len(all) == 0:
		env.Printf("There is nothing to undo.\n")
	}
	if err == nil && left > 0 && !o.dry {
		return cli.Exit(cli.ExitFailed)
	}
	return err
}

func showUndone(env *cli.Env, name string, u clientconfig.Undone, dry, kept bool) {
	left := " was left unchanged: "
	if u.Done != "" {
		left = ": "
	}
	switch {
	case u.Done != "" && dry:
		env.Printf("would undo %s: %s\n", cli.VisibleName(name), u.Done)
	case u.Done != "":
		env.PrintDone("%s %s", name, u.Done)
	}
	switch {
	case u.Left != "" && dry && filepath.Base(name) == config.SchemaFile: // it depends on what becomes of sandpiper.yaml
	case u.Left != "" && kept:
		env.Printf("%s was kept: %s\n", cli.VisibleName(name), u.Left)
	case u.Left != "":
		env.Warn(name + left + u.Left)
	}
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
