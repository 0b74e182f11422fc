package daemon

import (
	"github.com/sandpiper-mcp/sandpiper/internal/execution/hostcall"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver/builtin"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/worker"
)

// Feature is what one capability adds to a daemon; see package feature. Fields that are not set add nothing.
type Feature struct {
	Name string // of its package, and of its module in the package sandpiper.features
	// Python is the module, whose names code has.
	Python []byte
	// HostCalls returns the calls that code of an execution may make.
	HostCalls hostcall.Source
	// Tools returns tools for clients.
	Tools func() []builtin.Tool
}

// Modules returns the Python of features.
func Modules(features []Feature) (all []worker.Module) {
	for _, f := range features {
		if f.Python != nil {
			all = append(all, worker.Module{Name: f.Name, Source: f.Python})
		}
	}
	return all
}

func hostCalls(features []Feature) (all []hostcall.Source) {
	for _, f := range features {
		if f.HostCalls != nil {
			all = append(all, f.HostCalls)
		}
	}
	return all
}

func featureTools(features []Feature) (all []builtin.Tool) {
	for _, f := range features {
		if f.Tools != nil {
			all = append(all, f.Tools()...)
		}
	}
	return all
}
