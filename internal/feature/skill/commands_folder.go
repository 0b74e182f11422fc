package skill

import (
	"context"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/sandpiper-mcp/sandpiper/internal/cli"
	"github.com/sandpiper-mcp/sandpiper/internal/daemon"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/skill/folder"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
)

func exportCommand(env *cli.Env) *cobra.Command {
	var to string
	c := &cobra.Command{
		Use:   "export NAME... --to DIR",
		Short: "Write skills as Agent Skills folders",
		Long: `Export writes a folder for each skill below DIR: SKILL.md with name, description, tags
and version, and the code in scripts/. The folder's name is the name of the skill in
lower-case letters and hyphens, as the Agent Skills format requires.`,
		Example: `  sandpiper skills export filter_high_risk --to .claude/skills
  ls .claude/skills/filter-high-risk`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if to == "" {
				return cli.Usagef("export needs --to DIR, the directory of the folders")
			}
			return runExport(cmd.Context(), env, args, to)
		},
	}
	c.Flags().StringVar(&to, "to", "", "directory in which the folders are created")
	return c
}

func runExport(ctx context.Context, env *cli.Env, names []string, to string) error {
	return cli.WithHome(ctx, env, func(home *home.Home) error {
		var folders []folder.Folder
		for _, name := range names {
			found, err := home.Skills.Find(ctx, name, 0)
			if err != nil {
				return err
			}
			folders = append(folders, folder.Of(found))
		}
		paths := []string{}
		for _, f := range folders {
			path, err := f.Write(to)
			if err != nil {
				return err
			}
			if paths = append(paths, path); !env.JSON {
				env.Printf("%s\n", cli.VisibleName(path))
			}
		}
		if env.JSON {
			return env.WriteJSON(map[string]any{"success": true, "folders": paths})
		}
		return nil
	})
}

func importCommand(env *cli.Env) *cobra.Command {
	return &cobra.Command{
		Use:   "import DIR...",
		Short: "Save the skills in Agent Skills folders",
		Long: `Import saves the Python of Agent Skills folders: DIR has a SKILL.md, or contains folders
that have one. A folder with one script in scripts/ becomes one skill, one with
several becomes a skill for each, NAME_SCRIPT. The text of SKILL.md is kept as the
instructions of the skill; other files are not imported, and are listed.

A folder is content from outside: its code runs in the sandbox only, and its texts
are shown to models. Text that reads like a prompt injection is reported.`,
		Example: `  sandpiper skills import ~/.claude/skills/pdf-tools
  sandpiper skills import ./skills --tenant customer_A`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return runImport(cmd.Context(), env, args) },
	}
}

// skillFolders returns the directories of skills at a path: itself, or those in it.
func skillFolders(path string) (all []string, err error) {
	if _, err := os.Lstat(filepath.Join(path, folder.Manifest)); err == nil {
		return []string{path}, nil
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, fault.Wrap(fault.Invalid, err, "the directory %s cannot be read: %v", path, err)
	}
	for _, e := range entries {
		inside := filepath.Join(path, e.Name())
		if _, err := os.Lstat(filepath.Join(inside, folder.Manifest)); err == nil && e.IsDir() {
			all = append(all, inside)
		}
	}
	if len(all) == 0 {
		return nil, fault.New(fault.Invalid, "%s has no %s, and neither has a directory in it", path, folder.Manifest)
	}
	return all, nil
}

// importedSkill is one skill that import saved.
type importedSkill struct {
	Name      string          `json:"name"`
	Version   int             `json:"version"`
	Folder    string          `json:"folder"`
	Ignored   []string        `json:"ignored,omitempty"` // files of the folder
	Suspected []cli.Suspicion `json:"suspected_injection,omitempty"`
}

func runImport(ctx context.Context, env *cli.Env, paths []string) error {
	var dirs []string
	for _, path := range paths {
		found, err := skillFolders(path)
		if err != nil {
			return err
		}
		dirs = append(dirs, found...)
	}
	return cli.WithWarmHome(ctx, env, nil, func(d *daemon.Daemon, home *home.Home) error {
		imported := []importedSkill{}
		for _, dir := range dirs {
			saved, err := importFolder(ctx, d, home, dir)
			imported = append(imported, saved...)
			if err != nil {
				return err
			}
			for _, s := range saved {
				showImported(env, s)
			}
		}
		if env.JSON {
			return env.WriteJSON(map[string]any{"success": true, "skills": imported})
		}
		return nil
	})
}

// importFolder saves the skills of a folder once all of them were checked.
func importFolder(ctx context.Context, d *daemon.Daemon, home *home.Home, dir string) (saved []importedSkill, err error) {
	drafts, ignored, err := folder.Read(dir)
	if err != nil {
		return nil, err
	}
	for i := range drafts {
		if drafts[i], err = check(ctx, d.Runner.Code, home, "", drafts[i], nil); err != nil {
			return nil, fault.Wrap(fault.KindOf(err), err, "%s: %s", dir, fault.Message(err)).WithHint("%s", fault.Hint(err))
		}
	}
	for _, draft := range drafts {
		m, err := home.Skills.Save(ctx, draft)
		if err != nil {
			return saved, err
		}
		saved = append(saved, importedSkill{m.Name, m.Version, dir, ignored,
			cli.Suspect(append([]string{draft.Description, draft.Instructions, draft.Code}, draft.Tags...)...)})
		ignored = nil
	}
	return saved, nil
}

func showImported(env *cli.Env, s importedSkill) {
	if env.JSON {
		return
	}
	env.Printf("saved %s, version %d\n", s.Name, s.Version)
	for _, file := range s.Ignored {
		env.Printf("  not imported: %s\n", cli.VisibleName(file))
	}
	cli.PrintSuspected(env, s.Suspected)
}
