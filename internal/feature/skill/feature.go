// Package skill lets persons and clients save, find, test and delete skills: Python modules that code imports.
//
// The modules themselves, which code saves and imports too, are data of the core: package home/skill.
package skill

import (
	"context"
	"embed"
	"encoding/json"

	"github.com/sandpiper-mcp/sandpiper/internal/daemon"
	"github.com/sandpiper-mcp/sandpiper/internal/execution"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/background"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/feature"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/home/skill"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver/builtin"
)

//go:embed skill/*.py
var python embed.FS

// Feature returns the feature: the tools, resources and folders of skills, skills as programs that run by
// name, and the command skills.
func Feature() feature.Feature {
	return feature.Feature{
		Feature:  daemon.Feature{Name: "skill", Python: python, Start: start},
		Docs:     "skills.md",
		Commands: commands,
	}
}

func start(core daemon.Core) (daemon.Part, error) {
	return daemon.Part{
		Tools:     Tools(core.Runner),
		Resources: []builtin.Resources{Resources()},
		Programs:  background.Programs{Kind: "skill", Check: checkExists, Request: request},
	}, nil
}

func checkExists(ctx context.Context, h *home.Home, name string, _ json.RawMessage) error {
	_, err := h.Skills.Find(ctx, name, 0)
	return err
}

// request returns what calls the function of a skill.
func request(name string) (execution.Request, error) {
	if skill.CheckName(name) != nil {
		return execution.Request{}, fault.New(fault.Invalid, "%.60q cannot be the name of a skill", name)
	}
	return execution.Request{Code: "from skills import " + name + "\nresult = " + name + "(**inputs)\n"}, nil
}
