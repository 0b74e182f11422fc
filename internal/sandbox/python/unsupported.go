//go:build !linux || !(amd64 || arm64)

package python

import (
	"context"
	"io"
	"runtime"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// Only systems with a sandbox to run it in carry CPython: elsewhere it would be
// 40 MB that nothing may start.

// Install refuses: this build carries no CPython.
func Install(context.Context, Config) (*Installation, error) {
	return nil, unsupported()
}

// SystemLibraries refuses: this build carries no CPython.
func (i *Installation) SystemLibraries() (map[string]string, error) {
	return nil, unsupported()
}

// Pip refuses: this build carries none.
func (i *Installation) Pip(context.Context, string, []string, io.Writer, io.Writer) error {
	return unsupported()
}

// Builtin refuses: this build carries no CPython.
func (i *Installation) Builtin(context.Context) ([]string, error) { return nil, unsupported() }

// LayerWriter takes nothing here.
type LayerWriter struct{}

// File refuses: there are no layers.
func (w *LayerWriter) File(string, io.Reader) error { return unsupported() }

// OpenLayer refuses: this build carries no CPython.
func OpenLayer(context.Context, LayerConfig) (*Layer, error) { return nil, unsupported() }

// MakeLayer refuses: this build carries no CPython.
func (i *Installation) MakeLayer(context.Context, LayerConfig, func(*LayerWriter) error) (*Layer, error) {
	return nil, unsupported()
}

// SystemLibraries refuses: this build carries no CPython.
func (l *Layer) SystemLibraries(*Installation) (map[string]string, []string, error) {
	return nil, nil, unsupported()
}

func unsupported() error {
	return fault.New(fault.Unavailable, "this build for %s/%s carries no CPython, since there is no sandbox for it there yet", runtime.GOOS, runtime.GOARCH).
		WithHint("run Sandpiper on Linux (amd64 or arm64) with glibc: a virtual machine or WSL 2 will do")
}
