package vault

import (
	"sync"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// guesses counts tokens that were unknown in the current hour, in this process.
type guesses struct {
	mu    sync.Mutex
	since time.Time
	n     int
}

// CountGuesses counts those of the tokens that are not known: code that tries many short
// ids would find some. It returns an error if there are more in an hour than values that
// may be tokenized on request.
func CountGuesses[T any](v *Vault, tokens []Token, known map[Token]T) error {
	n := 0
	for _, t := range tokens {
		if _, ok := known[t]; ok {
			continue
		}
		if _, id, ok := t.parts(); ok && len(id) < longID {
			n++
		}
	}
	g := &v.guesses
	g.mu.Lock()
	defer g.mu.Unlock()
	now := v.cfg.Now()
	if since := now.Sub(g.since); since < 0 || since >= time.Hour {
		g.since, g.n = now, 0
	}
	if g.n += n; n == 0 || g.n <= v.cfg.MaxOnRequest {
		return nil
	}
	v.cfg.refused(keyQueries)
	return fault.New(fault.Exhausted, "%d tokens that do not exist were to be restored within an hour: the limit is %d", g.n,
		v.cfg.MaxOnRequest).
		WithHint("restore only tokens that you were shown; pii.queries_per_hour is the limit")
}
