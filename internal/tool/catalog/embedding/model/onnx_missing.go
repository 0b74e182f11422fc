//go:build !onnx

package model

import "github.com/sandpiper-mcp/sandpiper/internal/fault"

// local refuses: the library that runs a model adds more to the program than
// most have use for.
func (e *Embedder) local() error {
	return fault.New(fault.Unavailable, "this build cannot run a model of its own").
		WithHint("build Sandpiper with `go build -tags onnx ./cmd/sandpiper`, or name an endpoint such as Ollama in search.embeddings")
}
