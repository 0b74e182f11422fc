package workflow

import (
	"embed"
	"path/filepath"

	"github.com/sandpiper-mcp/sandpiper/internal/config"
	"github.com/sandpiper-mcp/sandpiper/internal/daemon"
	"github.com/sandpiper-mcp/sandpiper/internal/execution"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/background"
	"github.com/sandpiper-mcp/sandpiper/internal/feature"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/workflow/saved"
)

//go:embed workflow.py
var python embed.FS

// Settings are the settings of workflows.
type Settings struct {
	Dir string `key:"workflows" form:"path"` // of the operator's files; "" means that beside the user's configuration
}

// dir returns the directory of the operator's workflow files, "" if there is none.
func dir(c *config.Config) string {
	if dir := config.Of[Settings](c).Dir; dir != "" || c.UserDir == "" {
		return dir
	}
	return filepath.Join(c.UserDir, "workflows")
}

// Feature returns the feature: workflows in files and of tenants, the tools with which agents list, save
// and run them, those that are tools themselves, and the command workflow.
func Feature() feature.Feature {
	return feature.Feature{
		Feature: daemon.Feature{
			Name:   saved.Feature,
			Config: config.Section{Settings: func() any { return new(Settings) }},
			Python: python,
			Start:  start,
		},
		Docs:     "workflows.md",
		Commands: commands,
	}
}

func start(core daemon.Core) (daemon.Part, error) {
	s, err := New(Config{Runner: core.Runner, Dir: dir(core.Config()), IsTool: core.HasTool})
	if err != nil {
		return daemon.Part{}, err
	}
	return daemon.Part{
		Value:   s,
		Tools:   Tools(s),
		Exports: Exported(s, core.Homes),
		Programs: background.Programs{
			Kind:  "workflow",
			Check: s.CheckInputs,
			Request: func(name string) (execution.Request, error) {
				return execution.Request{Workflow: execution.Workflow{Name: name}}, nil
			},
		},
		Compile: s.Compile,
	}, nil
}
