//go:build !onnx

package model

import "github.com/sandpiper-mcp/sandpiper/internal/fault"

// local returns an error: the library that runs models is large, and most
// installations do not need it.
func (e *Embedder) local() error {
	return fault.New(fault.Unavailable, "this build cannot run a local model").
		WithHint("build Sandpiper with `go build -tags onnx ./cmd/sandpiper`, or configure an endpoint such as Ollama in search.embeddings")
}
