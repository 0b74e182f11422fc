// Package skill lets persons and clients save, find, test and delete skills: Python modules that code imports.
//
// The modules themselves, which code saves and imports too, are data of the core: package home/skill.
package skill

import (
	"github.com/sandpiper-mcp/sandpiper/internal/daemon"
	"github.com/sandpiper-mcp/sandpiper/internal/feature"
)

// Feature returns the feature: the command skills.
func Feature() feature.Feature {
	return feature.Feature{
		Feature:  daemon.Feature{Name: "skill"},
		Docs:     "skills.md",
		Commands: commands,
	}
}
