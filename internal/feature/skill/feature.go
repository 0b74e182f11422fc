// Package skill lets persons and clients save, find, test and delete skills: Python modules that code imports.
//
// The modules themselves, which code saves and imports too, are data of the core: package home/skill.
package skill

import (
	"embed"

	"github.com/sandpiper-mcp/sandpiper/internal/daemon"
	"github.com/sandpiper-mcp/sandpiper/internal/feature"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver/builtin"
)

//go:embed skill/*.py
var python embed.FS

// Feature returns the feature: the tools, resources and folders of skills, and the command skills.
func Feature() feature.Feature {
	return feature.Feature{
		Feature:  daemon.Feature{Name: "skill", Python: python, Start: start},
		Docs:     "skills.md",
		Commands: commands,
	}
}

func start(core daemon.Core) (daemon.Part, error) {
	return daemon.Part{Tools: Tools(core.Runner), Resources: []builtin.Resources{Resources()}}, nil
}
