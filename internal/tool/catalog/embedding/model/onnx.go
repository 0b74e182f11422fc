//go:build onnx

package model

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"path/filepath"
	"sync"

	"github.com/knights-analytics/hugot"
	"github.com/knights-analytics/hugot/pipelines"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// onnxModel is a model in a directory, which the first request loads.
type onnxModel struct {
	dir     string
	mu      sync.Mutex // serializes use of the pipeline
	session *hugot.Session
	run     *pipelines.FeatureExtractionPipeline

	naming sync.Mutex
	name   string // the identity; "" until it is known
}

func (e *Embedder) local() error {
	if e.cfg.Dir == "" {
		return fault.New(fault.Invalid, "search.embeddings.dir is missing").WithHint("set search.embeddings.dir to the directory of the model")
	}
	for _, name := range []string{"model.onnx", "tokenizer.json"} {
		if fi, err := os.Stat(filepath.Join(e.cfg.Dir, name)); err != nil || !fi.Mode().IsRegular() {
			return fault.Wrap(fault.Invalid, err, "the model directory %s has no file %s", e.cfg.Dir, name).
				WithHint("search.embeddings.dir must contain model.onnx and tokenizer.json")
		}
	}
	m := &onnxModel{dir: e.cfg.Dir}
	e.embed, e.close = m.embed, m.close
	e.identity = m.identity
	return nil
}

// identity is a hash of the files' content.
func (m *onnxModel) identity() (string, error) {
	m.naming.Lock()
	defer m.naming.Unlock()
	if m.name != "" {
		return m.name, nil
	}
	h := sha256.New()
	for _, name := range []string{"model.onnx", "tokenizer.json"} {
		f, err := os.Open(filepath.Join(m.dir, name))
		if err != nil {
			return "", m.broken(err)
		}
		_, err = io.Copy(h, f)
		f.Close()
		if err != nil {
			return "", m.broken(err)
		}
	}
	m.name = "onnx " + hex.EncodeToString(h.Sum(nil))
	return m.name, nil
}

func (m *onnxModel) broken(err error) error {
	return fault.Wrap(fault.Unavailable, err, "cannot use the model in %s", m.dir).
		WithHint("it must be an ONNX export of a sentence transformer with its tokenizer.json")
}

// embed embeds the texts one at a time, so that a query waits for at most one other
// text. Batches would not be faster: the library pads them to fixed sizes.
func (m *onnxModel) embed(ctx context.Context, texts []string, _ int) ([][]float32, error) {
	vs := make([][]float32, 0, len(texts))
	for _, text := range texts {
		v, err := m.one(ctx, text)
		if err != nil {
			return nil, err
		}
		vs = append(vs, v)
	}
	return vs, nil
}

func (m *onnxModel) one(ctx context.Context, text string) (v []float32, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if ctx.Err() != nil {
		return nil, timeoutError(ctx, "the embedding model")
	}
	// The library panics for an unsupported operation.
	defer func() {
		if p := recover(); p != nil {
			err = m.broken(nil)
		}
	}()
	if m.run == nil {
		if err := m.load(); err != nil {
			return nil, m.broken(err)
		}
	}
	out, err := m.run.RunPipeline([]string{text})
	if err != nil || len(out.Embeddings) != 1 {
		return nil, m.broken(err)
	}
	return out.Embeddings[0], nil
}

func (m *onnxModel) load() (err error) {
	if m.session == nil {
		if m.session, err = hugot.NewGoSession(); err != nil {
			return err
		}
	}
	m.run, err = hugot.NewPipeline(m.session, hugot.FeatureExtractionConfig{ModelPath: m.dir, OnnxFilename: "model.onnx", Name: "embeddings"})
	return err
}

func (m *onnxModel) close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.session == nil {
		return nil
	}
	err := m.session.Destroy()
	m.session, m.run = nil, nil
	return err
}
