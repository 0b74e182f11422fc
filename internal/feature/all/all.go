// Package all lists the features of the program. Nothing else registers one.
package all

import (
	"github.com/sandpiper-mcp/sandpiper/internal/feature"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/backup"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/bench"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/cluster"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/embedding"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/form"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/gvisor"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/importer"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/microvm"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/network"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/oauth"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/openapi"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/passthrough"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/restricted"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/schedule"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/skill"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/state"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/task"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/workflow"
)

// Features returns all features, in the order of their names.
func Features() []feature.Feature {
	return []feature.Feature{
		backup.Feature(),
		bench.Feature(),
		cluster.Feature(),
		embedding.Feature(),
		form.Feature(),
		gvisor.Feature(),
		importer.Feature(),
		microvm.Feature(),
		network.Feature(),
		oauth.Feature(),
		openapi.Feature(),
		passthrough.Feature(),
		restricted.Feature(),
		schedule.Feature(),
		skill.Feature(),
		state.Feature(),
		task.Feature(),
		workflow.Feature(),
	}
}
