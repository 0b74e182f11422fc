// Package model makes vectors of texts with a model of the operator's: at an
// OpenAI-compatible, Azure OpenAI or Ollama endpoint, or from a directory with an
// ONNX file (in a build with the tag onnx).
//
// Words. A vector (embedding) is a list of numbers of length one; texts that mean
// much the same have vectors that point the same way. An identity names all that
// a vector depends on besides the text: vectors of two identities say nothing of
// each other.
//
// What an endpoint answers is not believed: an answer with too few vectors, of
// other dimensions, or with numbers that are none is an error. Errors name the
// endpoint's host and what it did, never a key, a text or its answer.
//
// An Embedder is safe for concurrent use. It keeps nothing, and decides nothing
// about what may be sent to the endpoint: that is its caller's.
package model

import (
	"context"
	"math"
	"sync/atomic"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// The providers there are.
const (
	OpenAI = "openai" // and all who speak like it
	Azure  = "azure"
	Ollama = "ollama"
	ONNX   = "onnx"
)

// Config of an Embedder.
type Config struct {
	Provider   string // required
	URL        string // of the endpoint; "" means the provider's usual one, which Azure has not
	Model      string // or deployment; required but for ONNX
	Key        string // a reference such as ${NAME}; "" sends none
	Dimensions int    // of a vector; 0 means the model's own
	APIVersion string // of Azure's older interface; "" means the present one
	Dir        string // of an ONNX model, with model.onnx and tokenizer.json

	// Resolve gives what stands for ${NAME}, when it is needed; nil leaves texts
	// as they are.
	Resolve func(ctx context.Context, text string) (string, error)
}

// Batch is how many texts are sent at once; endpoints differ in how many they
// take, and none takes fewer.
const Batch = 32

// MostDimensions is how many numbers a vector may have.
const MostDimensions = 1 << 14

// Embedder makes vectors.
type Embedder struct {
	cfg        Config
	dimensions atomic.Int64 // 0 until they are known
	// embed asks for the vectors of at most Batch texts, attempts times at most.
	embed    func(ctx context.Context, texts []string, attempts int) ([][]float32, error)
	identity func() (string, error)
	close    func() error
}

// New returns an Embedder. It asks nobody and reads no file.
func New(cfg Config) (*Embedder, error) {
	e := &Embedder{cfg: cfg, close: func() error { return nil }}
	e.dimensions.Store(int64(cfg.Dimensions))
	if cfg.Provider == ONNX {
		return e, e.local()
	}
	return e, e.remote()
}

// Name is the model's, for people.
func (e *Embedder) Name() string {
	if e.cfg.Provider == ONNX {
		return e.cfg.Dir
	}
	return e.cfg.Model
}

// Dimensions is how many numbers its vectors have; 0 before that is known.
func (e *Embedder) Dimensions() int { return int(e.dimensions.Load()) }

// Local reports whether texts stay in this process.
func (e *Embedder) Local() bool { return e.cfg.Provider == ONNX }

// Identity names all that vectors depend on. For a model in a directory it reads
// the file.
func (e *Embedder) Identity() (string, error) { return e.identity() }

// attempts to get the vectors of texts that nobody waits for.
const attempts = 4

// Embed makes a vector of each text, at most Batch of them; who calls it can
// wait, and what may pass is tried again.
func (e *Embedder) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	return e.checked(ctx, texts, attempts)
}

// EmbedOne makes the vector of one text, at the first attempt or not at all.
func (e *Embedder) EmbedOne(ctx context.Context, text string) ([]float32, error) {
	vs, err := e.checked(ctx, []string{text}, 1)
	if err != nil {
		return nil, err
	}
	return vs[0], nil
}

// Close frees what a local model holds.
func (e *Embedder) Close() error { return e.close() }

func (e *Embedder) checked(ctx context.Context, texts []string, attempts int) ([][]float32, error) {
	if len(texts) == 0 || len(texts) > Batch {
		return nil, fault.New(fault.Internal, "%d texts were to be embedded at once; at most %d are", len(texts), Batch)
	}
	vs, err := e.embed(ctx, texts, attempts)
	if err != nil {
		return nil, err
	}
	if len(vs) != len(texts) {
		return nil, e.rubbish("%d vectors where %d were asked for", len(vs), len(texts))
	}
	for _, v := range vs {
		if err := e.check(v); err != nil {
			return nil, err
		}
	}
	return vs, nil
}

// check refuses what is no vector of this model, and gives it the length of one.
func (e *Embedder) check(v []float32) error {
	if len(v) > 0 && len(v) <= MostDimensions {
		e.dimensions.CompareAndSwap(0, int64(len(v)))
	}
	if want := e.Dimensions(); len(v) != want || len(v) == 0 {
		return e.rubbish("a vector of %d numbers where it has %d", len(v), want)
	}
	sum := 0.0
	for _, x := range v {
		sum += float64(x) * float64(x)
	}
	if math.IsNaN(sum) || math.IsInf(sum, 0) || sum == 0 {
		return e.rubbish("a vector that points nowhere")
	}
	for i := range v {
		v[i] = float32(float64(v[i]) / math.Sqrt(sum))
	}
	return nil
}

// rubbish is the error about an answer that cannot be used.
func (e *Embedder) rubbish(format string, args ...any) error {
	return fault.New(fault.Unavailable, e.who()+" answered "+format, args...).
		WithHint("look whether search.embeddings names an embedding model, and its dimensions")
}
