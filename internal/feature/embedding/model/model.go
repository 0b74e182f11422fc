// Package model embeds texts with a model that the operator configures: at an
// OpenAI-compatible, Azure OpenAI or Ollama endpoint, or in this process with an
// installed model.
//
// Terms. A vector (embedding) has length 1; texts with similar meanings have vectors
// with similar directions. An identity names everything that a vector depends on
// besides the text: vectors of two identities are not comparable.
//
// Responses of an endpoint are validated: too few vectors, other dimensions and
// numbers that are not finite are errors. Errors name the host of the endpoint and the
// failure, never a key, a text or the response.
//
// An Embedder is safe for concurrent use. It stores nothing; its caller decides which
// texts may be sent to the endpoint.
package model

import (
	"context"
	"math"
	"sync/atomic"

	"github.com/sandpiper-mcp/sandpiper/internal/config/section"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// Provider is where a model is.
type Provider string

// The supported providers.
const (
	None   Provider = "none"   // no model, in the configuration
	OpenAI Provider = "openai" // and compatible endpoints
	Azure  Provider = "azure"
	Ollama Provider = "ollama"
	Local  Provider = "local" // in this process
)

// SetText sets p to a provider.
func (p *Provider) SetText(text string) error {
	if text == "onnx" {
		return new(ONNX).SetText(text)
	}
	err := section.OneOf(text, string(None), string(OpenAI), string(Azure), string(Ollama), string(Local))
	if err == nil {
		*p = Provider(text)
	}
	return err
}

// ONNX is the setting of earlier versions for the directory of an ONNX file.
type ONNX struct{}

// SetText rejects all texts.
func (*ONNX) SetText(text string) error {
	return fault.New(fault.Invalid, "is %q, but ONNX files are no longer supported", text).
		WithHint("install the model with `sandpiper models add minilm DIRECTORY`, set provider to local, and remove dir")
}

// Config of an Embedder.
type Config struct {
	Provider Provider `key:"provider,restart,short"` // required
	URL      string   `key:"url,restart" form:"url"` // of the endpoint; "" means the default of the provider; Azure has none
	// model or deployment; required, except that a local model is DefaultLocal by default
	Model      string `key:"model,restart"`
	Key        string `key:"api_key,restart" form:"reference"`   // a reference such as ${NAME}; "" sends none
	Dimensions int    `key:"dimensions,restart" range:"1 16384"` // of a vector; 0 means the model's own
	APIVersion string `key:"api_version,restart"`                // of the older API of Azure; "" means the current API
	Dir        string // of the installed local models

	ONNX ONNX `key:"dir"`

	// Resolve replaces references such as ${NAME} before each request; nil leaves them
	// unchanged.
	Resolve func(ctx context.Context, text string) (string, error)
}

// Batch is the number of texts in a request. All supported endpoints accept it.
const Batch = 32

// MaxDimensions is the maximum number of dimensions.
const MaxDimensions = 1 << 14

// Embedder embeds texts.
type Embedder struct {
	cfg        Config
	dimensions atomic.Int64 // 0 until they are known
	// embed embeds at most Batch texts in at most the given number of attempts.
	embed    func(ctx context.Context, texts []string, attempts int) ([][]float32, error)
	identity func() (string, error)
	close    func() error
}

// New returns an Embedder. It sends no request and reads no file.
func New(cfg Config) (*Embedder, error) {
	e := &Embedder{cfg: cfg, close: func() error { return nil }}
	e.dimensions.Store(int64(cfg.Dimensions))
	if cfg.Provider == Local {
		return e, e.runLocally()
	}
	return e, e.remote()
}

// Name returns the name of the model for display.
func (e *Embedder) Name() string { return e.cfg.Model }

// Dimensions returns the dimensions of the vectors; 0 until they are known.
func (e *Embedder) Dimensions() int { return int(e.dimensions.Load()) }

// Local reports whether texts stay in this process.
func (e *Embedder) Local() bool { return e.cfg.Provider == Local }

// Identity returns the identity of the model. It opens a local model.
func (e *Embedder) Identity() (string, error) { return e.identity() }

// attempts of Embed, for which no search waits.
const attempts = 4

// Embed returns a vector for each of at most Batch texts. It retries temporary errors.
func (e *Embedder) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	return e.checked(ctx, texts, attempts)
}

// EmbedOne returns the vector of one text. It does not retry.
func (e *Embedder) EmbedOne(ctx context.Context, text string) ([]float32, error) {
	vs, err := e.checked(ctx, []string{text}, 1)
	if err != nil {
		return nil, err
	}
	return vs[0], nil
}

// Close frees the resources of a local model.
func (e *Embedder) Close() error { return e.close() }

func (e *Embedder) checked(ctx context.Context, texts []string, attempts int) ([][]float32, error) {
	if len(texts) == 0 || len(texts) > Batch {
		return nil, fault.New(fault.Internal, "embed %d texts at once; at most %d are allowed", len(texts), Batch)
	}
	vs, err := e.embed(ctx, texts, attempts)
	if err != nil {
		return nil, err
	}
	if len(vs) != len(texts) {
		return nil, e.invalid("%d vectors instead of %d", len(vs), len(texts))
	}
	for _, v := range vs {
		if err := e.check(v); err != nil {
			return nil, err
		}
	}
	return vs, nil
}

// check rejects a vector that does not fit the model, and normalises it to length 1.
func (e *Embedder) check(v []float32) error {
	if len(v) > 0 && len(v) <= MaxDimensions {
		e.dimensions.CompareAndSwap(0, int64(len(v)))
	}
	if want := e.Dimensions(); len(v) != want || len(v) == 0 {
		return e.invalid("a vector of %d dimensions instead of %d", len(v), want)
	}
	sum := 0.0
	for _, x := range v {
		sum += float64(x) * float64(x)
	}
	if math.IsNaN(sum) || math.IsInf(sum, 0) || sum == 0 {
		return e.invalid("a vector without a direction")
	}
	for i := range v {
		v[i] = float32(float64(v[i]) / math.Sqrt(sum))
	}
	return nil
}

// invalid returns the error for an invalid response.
func (e *Embedder) invalid(format string, args ...any) error {
	return fault.New(fault.Unavailable, e.host()+" returned "+format, args...).
		WithHint("check that search.embeddings names an embedding model and its dimensions")
}
