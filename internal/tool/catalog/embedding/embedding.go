// Package embedding finds tools by what they mean: by the vectors that a model
// makes of what is said of them and of a query.
//
// Words. A space is the vectors of the tools of one catalog, as far as they are
// known; what is near to a query in it means much the same. Vectors are kept on
// disk under the model's identity and the text they were made of, so that only
// what is new or changed is asked for, and by one of several processes.
//
// Everything that a model is asked happens beside the reply path: spaces fill in
// the background, and a query waits for its own vector no longer than Config
// says. A model that is down, slow or answers rubbish costs the vectors and
// nothing else; State says why, and the log says it once.
//
// An Index and a Space are safe for concurrent use. The package ranks by nothing
// but vectors, keeps queries in memory only, and does not decide which texts may
// be sent to the model.
package embedding

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog/embedding/model"
)

// Config of an Index.
type Config struct {
	Dir     string          // where vectors are kept; made if there is none. Required
	Model   *model.Embedder // required; closed with the Index
	Timeout time.Duration   // how long a search waits for the vector of its query; 0 means 300ms
	Log     *slog.Logger    // nil discards
}

// Index has the vectors of one model.
type Index struct {
	cfg  Config
	life context.Context // ends with Close
	end  context.CancelFunc
	work sync.WaitGroup
	more chan struct{} // there is a next space, or the model may be asked again

	mu      sync.Mutex
	now     *Space // the latest
	shown   *Space // the latest whose kept vectors were read
	wrong   map[activity]error
	logged  map[string]time.Time // reason -> when it was logged last
	queries map[key]*query
	open    int // queries without an answer
}

// activity is what a model is asked for.
type activity string

const (
	learning  activity = "make vectors of tools"
	searching activity = "make a vector of a query"
)

// New returns an Index, which does nothing before there is a Space.
func New(cfg Config) *Index {
	if cfg.Timeout == 0 {
		cfg.Timeout = 300 * time.Millisecond
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	x := &Index{cfg: cfg, more: make(chan struct{}, 1), wrong: map[activity]error{}, logged: map[string]time.Time{}, queries: map[key]*query{}}
	x.life, x.end = context.WithCancel(context.Background())
	x.work.Go(x.run)
	return x
}

// Close ends what is asked of the model, and waits for it.
func (x *Index) Close() error {
	x.end()
	x.work.Wait()
	return x.cfg.Model.Close()
}

// Local reports whether queries stay in this process.
func (x *Index) Local() bool { return x.cfg.Model.Local() }

// State is how search by meaning is.
type State struct {
	Model  string // its name
	Tools  int    // in the latest space
	Known  int    // of them, that have a vector
	Reason string // why it does not work, or not for all; "" if nothing is wrong
	Hint   string
}

// State says how it is.
func (x *Index) State() State {
	x.mu.Lock()
	defer x.mu.Unlock()
	s := State{Model: x.cfg.Model.Name()}
	if x.shown != nil {
		s.Tools, s.Known = x.shown.size()
	}
	for _, a := range []activity{searching, learning} {
		if err := x.wrong[a]; err != nil {
			s.Reason, s.Hint = fault.Message(err), fault.Hint(err)
		}
	}
	return s
}

// Probe asks the model for one vector, now, for who wants to know whether it works.
func (x *Index) Probe(ctx context.Context) error {
	_, err := x.cfg.Model.EmbedOne(ctx, "list the open issues of a repository")
	return err
}

// logEvery is how often one reason is logged.
const logEvery = time.Hour

// note remembers how an activity went.
func (x *Index) note(a activity, err error) {
	if errors.Is(err, context.Canceled) {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.wrong[a] = err
	if err == nil {
		return
	}
	reason := fault.Message(err)
	if time.Since(x.logged[reason]) < logEvery {
		return
	}
	x.logged[reason] = time.Now()
	x.cfg.Log.Warn("the embedding model could not "+string(a)+"; tools are found by words alone", "reason", reason, "hint", fault.Hint(err), "error", err)
}
