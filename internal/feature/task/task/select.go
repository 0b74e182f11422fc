// Package task turns a description of a task into the few tools that it needs.
package task

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/task/wording"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog"
	"github.com/sandpiper-mcp/sandpiper/internal/toolcall/lookup"
)

// Defaults and limits of a Query.
const (
	DefaultThreshold = 0.3
	DefaultTopK      = 5
	MaxTopK          = 100
	maxTask          = 8000 // bytes
)

// Query selects tools for a task.
type Query struct {
	Task      string
	Threshold float64 // least score relative to the best tool, up to 1; 0 means DefaultThreshold
	TopK      int     // most tools; 0 means DefaultTopK
}

// Set sets the threshold and the number of tools that a caller has given; nil means the default. An
// explicit 0 is an error.
func (q *Query) Set(threshold *float64, topK *int) error {
	least, most := DefaultThreshold, DefaultTopK
	if threshold != nil {
		least = *threshold
	}
	if topK != nil {
		most = *topK
	}
	q.Threshold, q.TopK = least, most
	return q.checkNumbers()
}

// Selection lists the tools for a task, the best first, with the tokens of their definitions and of those of all tools.
type Selection struct {
	Task      string     `json:"task"`
	Tools     []Selected `json:"tools"`
	Available int        `json:"available"`  // tools that can be called
	Share     float64    `json:"share"`      // selected of the available ones, 0 to 1
	Tokens    int64      `json:"tokens"`     // of the definitions of the selected tools
	AllTokens int64      `json:"all_tokens"` // of those of all available tools
}

// Selected is a tool of a Selection, or a function that code can import.
type Selected struct {
	Name   string   `json:"name"`  // SERVER.TOOL, MODULE.FUNCTION or skills.NAME
	Score  float64  `json:"score"` // relative to the best tool
	Calls  []string `json:"-"`     // tools that a function may call
	tokens int64
}

// Select returns the tools, and the handwritten functions and skills, that match a task.
func Select(ctx context.Context, now *catalog.Snapshot, own *lookup.Functions, q Query) (Selection, error) {
	if err := q.check(); err != nil {
		return Selection{}, err
	}
	s := Selection{Task: q.Task, Tools: []Selected{}, AllTokens: now.Tokens()}
	for _, t := range now.Tools {
		if t.Callable() {
			s.Available++
		}
	}
	for _, f := range own.All() {
		s.Available++
		s.AllTokens += f.Tokens
	}
	s.Tools = rank(ctx, now, own, q)
	for _, t := range s.Tools {
		s.Tokens += t.tokens
	}
	if s.Available > 0 {
		s.Share = float64(len(s.Tools)) / float64(s.Available)
	}
	return s, nil
}

// rank returns the tools for a query. Of a task with several clauses, each one selects.
func rank(ctx context.Context, now *catalog.Snapshot, own *lookup.Functions, q Query) []Selected {
	best := map[string]Selected{}
	put := func(s Selected) {
		if s.Score >= q.Threshold && s.Score > best[s.Name].Score { // not if it is NaN, since the best score is 0
			best[s.Name] = s
		}
	}
	queries := wording.Queries(q.Task)
	for _, query := range queries {
		found := now.Rank(ctx, query, q.TopK)
		functions, bestTool := own.Rank(query, found)
		for _, t := range found {
			put(Selected{t.Ref.String(), bestTool * t.Score / found[0].Score, nil, t.Tokens()})
		}
		for _, f := range functions {
			put(Selected{f.Name, f.Score, f.Calls, f.Tokens})
		}
	}
	all := slices.SortedFunc(maps.Values(best), func(a, b Selected) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.Name, b.Name))
	})
	return slices.Clip(all[:min(len(all), q.TopK)])
}

func (q *Query) check() error {
	if q.Threshold == 0 {
		q.Threshold = DefaultThreshold
	}
	if q.TopK == 0 {
		q.TopK = DefaultTopK
	}
	switch {
	case strings.TrimSpace(q.Task) == "":
		return fault.New(fault.Invalid, "the task is empty").WithHint("describe in a sentence what is to be done")
	case len(q.Task) > maxTask:
		return fault.New(fault.Invalid, "the task has %d bytes; at most %d are allowed", len(q.Task), maxTask).
			WithHint("put data into a file of the workspace, and name it in the task")
	}
	return q.checkNumbers()
}

func (q *Query) checkNumbers() error {
	switch {
	case !(q.Threshold > 0 && q.Threshold <= 1): // also if it is NaN
		return fault.New(fault.Invalid, "the threshold is %g; it must be above 0 and at most 1", q.Threshold)
	case q.TopK < 1 || q.TopK > MaxTopK:
		return fault.New(fault.Invalid, "top_k is %d; it must be 1 to %d", q.TopK, MaxTopK)
	}
	return nil
}
