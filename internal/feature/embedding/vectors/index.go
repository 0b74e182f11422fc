// Package vectors finds tools by the similarity of vectors that an embedding model
// makes of their descriptions and of a query.
//
// Terms. A space holds the vectors of the tools of one catalog that are known so far.
// Vectors are stored on disk by the identity of the model and a hash of the text, so
// that only new and changed texts are embedded, and by only one of several processes.
//
// Spaces are filled in the background, and a query waits for its vector at most for
// Config.Timeout. If the model is down, slow or returns invalid vectors, search works
// without them; State reports the reason, and the log repeats it once an hour at most.
//
// An Index and a Space are safe for concurrent use. The package ranks by vectors only,
// keeps queries in memory only, and does not decide which texts may be sent to the
// model.
package vectors

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/embedding/model"
	"github.com/sandpiper-mcp/sandpiper/internal/toolcall/lookup"
)

// Config of an Index.
type Config struct {
	Dir     string          // directory of the vectors, created if missing; required
	Model   *model.Embedder // required; closed with the Index
	Timeout time.Duration   // how long a search waits for the vector of its query; 0 means 300ms
	Log     *slog.Logger    // nil discards
}

// Index manages the vectors of one model.
type Index struct {
	cfg   Config
	end   context.CancelFunc            // ends the context of the goroutines of work
	spawn func(f func(context.Context)) // runs f in a goroutine of work
	work  sync.WaitGroup
	more  chan struct{} // signals a new space or a retry

	mu      sync.Mutex
	now     *Space // the latest
	shown   *Space // the latest whose stored vectors were loaded
	errs    map[activity]error
	logged  map[string]time.Time // reason -> time of its last log line
	queries map[key]*query
	open    int // queries without a result
	closed  bool
}

// activity is a use of the model, as the log names it.
type activity string

const (
	embeddingTools activity = "embed tools"
	embeddingQuery activity = "embed a query"
)

// New returns an Index, which is idle until NewSpace is called.
func New(cfg Config) *Index {
	if cfg.Timeout == 0 {
		cfg.Timeout = 300 * time.Millisecond
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	x := &Index{cfg: cfg, more: make(chan struct{}, 1), errs: map[activity]error{}, logged: map[string]time.Time{},
		queries: map[key]*query{}}
	ctx, end := context.WithCancel(context.Background())
	x.end, x.spawn = end, func(f func(context.Context)) { x.work.Go(func() { f(ctx) }) }
	x.spawn(x.run)
	return x
}

// Close cancels requests to the model and waits for them.
func (x *Index) Close() error {
	x.mu.Lock()
	x.closed = true
	x.mu.Unlock()
	x.end()
	x.work.Wait()
	return x.cfg.Model.Close()
}

// Local reports whether queries stay in this process.
func (x *Index) Local() bool { return x.cfg.Model.Local() }

// State returns the current state.
func (x *Index) State() lookup.SemanticSearch {
	x.mu.Lock()
	defer x.mu.Unlock()
	s := lookup.SemanticSearch{Model: x.cfg.Model.Name()}
	if x.shown != nil {
		s.Tools, s.Known = x.shown.size()
	}
	for _, a := range []activity{embeddingQuery, embeddingTools} {
		if err := x.errs[a]; err != nil {
			s.Reason, s.Hint = fault.Message(err), fault.Hint(err)
		}
	}
	return s
}

// Probe requests one vector from the model and returns the error, for diagnosis.
func (x *Index) Probe(ctx context.Context) error {
	_, err := x.cfg.Model.EmbedOne(ctx, "list the open issues of a repository")
	return err
}

// logEvery is the minimum time between log lines with the same reason.
const logEvery = time.Hour

// record records the outcome of an activity.
func (x *Index) record(a activity, err error) {
	if errors.Is(err, context.Canceled) {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.errs[a] = err
	if err == nil {
		return
	}
	reason := fault.Message(err)
	if time.Since(x.logged[reason]) < logEvery {
		return
	}
	x.logged[reason] = time.Now()
	x.cfg.Log.Warn("the embedding model could not "+string(a)+"; search uses words only", "reason", reason, "hint", fault.Hint(err),
		"error", err)
}
