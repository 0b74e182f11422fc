//go:build !linux || !(amd64 || arm64)

package python

import (
	"context"
	"io"
	"runtime"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// CPython is embedded only for systems with a sandbox backend: on others it would be
// 40 MB that cannot be used.

// Install returns an error: this build does not embed CPython.
func Install(context.Context, Config) (*Installation, error) {
	return nil, unsupported()
}

// SystemLibraries returns an error: this build does not embed CPython.
func (i *Installation) SystemLibraries() (map[string]string, error) {
	return nil, unsupported()
}

// RunPip refuses: this build carries none.
func (i *Installation) RunPip(context.Context, string, []string, io.Writer, io.Writer) error {
	return unsupported()
}

// StandardModules returns an error: this build does not embed CPython.
func (i *Installation) StandardModules(context.Context) ([]string, error) { return nil, unsupported() }

// LayerWriter cannot be used in this build.
type LayerWriter struct{}

// WriteFile refuses: there are no layers.
func (w *LayerWriter) WriteFile(string, io.Reader) error { return unsupported() }

// OpenLayer returns an error: this build does not embed CPython.
func OpenLayer(context.Context, LayerConfig) (*Layer, error) { return nil, unsupported() }

// EnsureLayer returns an error: this build does not embed CPython.
func (i *Installation) EnsureLayer(context.Context, LayerConfig, func(*LayerWriter) error) (*Layer, error) {
	return nil, unsupported()
}

// SystemLibraries returns an error: this build does not embed CPython.
func (l *Layer) SystemLibraries(*Installation) (map[string]string, []string, error) {
	return nil, nil, unsupported()
}

func unsupported() error {
	return fault.New(fault.Unavailable, "this build for %s/%s does not embed CPython, because it has no sandbox backend", runtime.GOOS,
		runtime.GOARCH).
		WithHint("run Sandpiper on Linux (amd64 or arm64) with glibc: a virtual machine or WSL 2 also works")
}
