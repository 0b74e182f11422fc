package model

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/embedding/bert"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/embedding/local"
)

// DefaultLocal is the local model that is used if none is named.
const DefaultLocal = "minilm"

const (
	reopenAfter = 10 * time.Second       // after a failure to open the model
	yieldFor    = 5 * time.Millisecond   // between checks whether queries are running
	yieldMost   = 100 * time.Millisecond // before each layer
)

// LocalIdentity returns the identity of the local model whose file has a checksum.
func LocalIdentity(checksum string) string { return "local " + checksum }

// localModel is a model in this process, which the first use opens.
type localModel struct {
	open    func() (*bert.Model, error)
	check   func() error // returns an error if the model is no longer installed
	queries atomic.Int32 // running

	mu     sync.Mutex
	model  *bert.Model // nil until it is open
	err    error       // of the last attempt to open it
	failed time.Time   // of that attempt
	closed bool
}

// runLocally configures an Embedder that runs a model in this process.
func (e *Embedder) runLocally() error {
	if e.cfg.Model == "" {
		e.cfg.Model = DefaultLocal
	}
	store := local.Store(e.cfg.Dir)
	if err := store.Check(e.cfg.Model); err != nil {
		return err
	}
	m := &localModel{
		open:  func() (*bert.Model, error) { return store.Open(e.cfg.Model) },
		check: func() error { return store.CheckInstalled(e.cfg.Model) },
	}
	e.embed, e.close = m.embed, m.close
	e.identity = func() (string, error) {
		b, err := m.get()
		if err != nil {
			return "", err
		}
		return LocalIdentity(b.Identity()), nil
	}
	return nil
}

// get opens the model on the first call. A model that is replaced on disk is used from the next start,
// as the vectors of tools and those of queries must come from the same one. One that is removed is
// not used, so that its vectors can be deleted.
func (m *localModel) get() (*bert.Model, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, fault.New(fault.Unavailable, "the embedding model is closed")
	}
	if m.model != nil {
		return m.model, m.check()
	}
	if time.Since(m.failed) < reopenAfter {
		return nil, m.err
	}
	if m.model, m.err = m.open(); m.err != nil {
		m.failed = time.Now()
	}
	return m.model, m.err
}

// embed embeds one text after the other. Those of tools, for which no search waits, leave a third of
// a processor idle and wait while queries run.
func (m *localModel) embed(ctx context.Context, texts []string, attempts int) ([][]float32, error) {
	b, err := m.get()
	if err != nil {
		return nil, err
	}
	between, query := func() error { return m.yield(ctx) }, attempts == 1
	if query {
		m.queries.Add(1)
		defer m.queries.Add(-1)
		between = ctx.Err
	}
	vectors := make([][]float32, 0, len(texts))
	for _, text := range texts {
		begin := time.Now()
		v, err := b.Embed(text, between)
		if ctx.Err() != nil {
			return nil, timeoutError(ctx, "the embedding model")
		}
		if err != nil {
			return nil, err
		}
		vectors = append(vectors, v)
		if !query {
			sleep(ctx, time.Since(begin)/2)
		}
	}
	return vectors, nil
}

// yield waits while queries run, but not for ever.
func (m *localModel) yield(ctx context.Context) error {
	for waited := time.Duration(0); m.queries.Load() > 0 && waited < yieldMost && ctx.Err() == nil; waited += yieldFor {
		sleep(ctx, yieldFor)
	}
	return ctx.Err()
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

func (m *localModel) close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	if m.model == nil {
		return nil
	}
	err := m.model.Close()
	m.model = nil
	return err
}
