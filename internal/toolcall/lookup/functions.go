package lookup

import (
	"context"

	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/tokens"
)

// Function is a function of a handwritten module, or the function of a skill that has its name.
type Function struct {
	Name   string   // MODULE.FUNCTION, or skills.NAME
	Calls  []string // tools that it may call, SERVER.TOOL
	Tokens int64    // of its name, description and schema
}

// RankedFunction is a Function with its score, relative to the best function or tool.
type RankedFunction struct {
	Function
	Score float64
}

// Functions are the functions that code of a viewer can import.
type Functions struct {
	now *catalog.Snapshot
	all []Function
	own []module // of each Function
}

// Functions returns the functions that the viewer's code can import. Functions that are async are
// omitted.
func (f *Finder) Functions(ctx context.Context) (*Functions, error) {
	found := &Functions{now: f.now()}
	own, err := f.modules(ctx, found.now)
	if err != nil {
		return nil, err
	}
	for _, m := range own {
		s, err := m.source(ctx)
		if err != nil {
			return nil, err
		}
		if s.Name == "" || s.Async {
			continue
		}
		size := int64(tokens.Count(m.name + "\n" + m.description + "\n" + string(s.Input())))
		found.all = append(found.all, Function{m.server + "." + m.name, m.calls, size})
		found.own = append(found.own, m)
	}
	return found, nil
}

// All returns the functions.
func (f *Functions) All() []Function {
	if f == nil {
		return nil
	}
	return f.all
}

// Rank returns the functions that match a query, with scores relative to the best one and to these
// tools, which match too; and the score of the best of these tools.
func (f *Functions) Rank(query string, tools []catalog.Ranked) (found []RankedFunction, bestTool float64) {
	if len(f.All()) == 0 {
		return nil, 1
	}
	best := 0.0
	for _, h := range rank(f.now, tools, f.own, Query{Text: query}) {
		switch i := h.Doc - len(tools); {
		case i < 0:
			bestTool = max(bestTool, h.Score)
		case i < len(f.own):
			found = append(found, RankedFunction{f.all[i], h.Score})
		default:
			continue // an example of other tools
		}
		best = max(best, h.Score)
	}
	if best == 0 {
		return nil, 1
	}
	for i := range found {
		found[i].Score /= best
	}
	return found, bestTool / best
}
