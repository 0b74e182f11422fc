// Package live passes the state of a running background execution between processes, by the database:
// the one that runs it its progress, the end of its output and its open questions, and others answers and
// the wish to cancel it.
//
// A Publisher serves one execution. The package neither runs nor cancels code itself.
package live

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/execution/question"
	"github.com/sandpiper-mcp/sandpiper/internal/home/journal"
)

// State is the state of a background execution that is running, as far as it is known to other
// processes.
type State struct {
	Progress  *Progress           `json:"progress,omitempty"`
	Output    []string            `json:"output,omitempty"` // the last items
	Questions []question.Question `json:"questions,omitempty"`
}

// Progress is the progress that the running code reports. Total 0 means unknown.
type Progress struct {
	Done    float64 `json:"done"`
	Total   float64 `json:"total,omitempty"`
	Message string  `json:"message,omitempty"`
}

// ErrCancelled is the cause of the end of an execution that a person has cancelled.
var ErrCancelled = errors.New("the execution was cancelled")

// Output is the end of the output of an execution. It is safe for concurrent use.
type Output struct {
	mu   sync.Mutex
	tail []string
	size int
	news bool
}

const tailBytes = 4 << 10

// Add adds an item of output.
func (o *Output) Add(p []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	s := strings.ToValidUTF8(string(p[max(0, len(p)-tailBytes):]), "\ufffd")
	o.tail, o.size, o.news = append(o.tail, s), o.size+len(s), true
	for o.size > tailBytes && len(o.tail) > 1 {
		o.size -= len(o.tail[0])
		o.tail = o.tail[1:]
	}
}

// Take returns the end of the output, and whether it has changed since the last call.
func (o *Output) Take() ([]string, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	news := o.news
	o.news = false
	return append([]string(nil), o.tail...), news
}

// Publisher stores the state of an execution that this process runs.
type Publisher struct {
	Runs      *journal.Runs
	Execution string
	Next      func() (s State, news bool) // the state without questions, and whether it has changed since the last call
	Questions *question.Set
	Replays   func() bool     // reports that questions of an earlier run may be asked again soon
	Cancel    func(err error) // called if another process requests it
	Log       *slog.Logger
}

// interval is the time between two updates.
const interval = 500 * time.Millisecond

// Run publishes until ended is closed.
func (p Publisher) Run(ctx context.Context, ended <-chan struct{}) {
	ctx = context.WithoutCancel(ctx)
	tick := time.NewTicker(interval)
	defer tick.Stop()
	asked := 0
	for {
		select {
		case <-ended:
			return
		case <-tick.C:
		}
		var text []byte
		open, number := p.Questions.List()
		if len(open) > 0 && !p.Replays() {
			TakeAnswers(ctx, p)
			open, number = p.Questions.List() // without those that were answered
		}
		if s, news := p.Next(); news || number != asked || len(open) > 0 {
			s.Questions, asked = open, number
			text, _ = json.Marshal(s)
		}
		cancelled, err := p.Runs.SetLive(ctx, p.Execution, text)
		if err != nil {
			p.Log.Warn("store the progress of a background execution", "execution", p.Execution, "error", err)
		}
		if cancelled {
			p.Cancel(ErrCancelled)
		}
	}
}
