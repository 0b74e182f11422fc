package journal_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home/journal"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

// interrupted returns a run of some writes that was interrupted.
func interrupted(t *testing.T, concurrent bool, patience time.Duration, asks ...journal.HostCall) *journal.Record {
	t.Helper()
	dir := t.TempDir()
	first := start(t, dir)
	r := first.NewRecord("exec_1", nothing, concurrent)
	for i, a := range asks {
		write(t, r, a, fmt.Sprint(i))
	}
	first.Process.Close()
	r, _, err := startWith(t, dir, sealing, tenant.Local, patience).
		OpenRecord(t.Context(), "exec_1", func([]byte) bool { return concurrent })
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestReplayReportsDivergence(t *testing.T) {
	for want, now := range map[string]journal.HostCall{
		`as call 1 it asks for crm.send with another value of "to" than the first run`: ask("send",
			`{"n":1,"to":"secret-bob"}`),
		`as call 1 it asks for crm.send with another value of "n", "to" than the first run`: ask("send", `{"n":2}`),
		`as call 1 it asks for crm.drop, and the first run asked for crm.send`: ask("drop",
			`{"n":1,"to":"secret-ann"}`),
		`as call 1 it asks for ask, and the first run asked for crm.send`:                             {Method: "ask"},
		`as call 1 it asks for crm.send with another value of "to", "x" than the first run`:           ask("send", `{"n":1,"x":0}`),
		`as call 1 it asks for crm.send with other arguments than the first run`:                      ask("send", `[]`),
		`as call 1 it asks for crm.send with another value of "n", "to", "u", "v" than the first run`: ask("send", `{"u":1,"v":1}`),
	} {
		r := interrupted(t, false, time.Minute, ask("send", `{"n":1,"to":"secret-ann"}`), ask("send", `{"n":2,"to":"eve"}`))
		_, err := r.Next(t.Context(), now)
		if _, ok := errors.AsType[*journal.Divergence](err); !ok || !strings.Contains(fault.Message(err), want) ||
			strings.Contains(err.Error(), "secret") {
			t.Errorf("%v, want %s", err, want)
		}
		// it stays stopped
		if _, err := r.Next(t.Context(), ask("send", `{"n":1,"to":"secret-ann"}`)); err == nil {
			t.Error("the run continued")
		}
	}
}

func TestReplayContinuesAfterRecord(t *testing.T) {
	r := interrupted(t, false, time.Minute, ask("send", `{"n":1}`), ask("send", `{"n":2}`))
	gives(t, r, ask("send", `{"n":1}`), `0`)
	gives(t, r, ask("send", `{"n":2}`), `1`)
	if c := next(t, r, ask("send", `{"n":3}`)); c.Answer != nil || c.Begun || c.Number != 3 {
		t.Errorf("new call: %+v", c)
	}
}

// In the first run the thread that writes 2 was faster, and the process ended before the other
// thread requested 3.
func TestReplayAcceptsReorderedThreads(t *testing.T) {
	for range 20 {
		r := interrupted(t, true, time.Minute, ask("send", `{"n":1}`), ask("send", `{"n":2}`))
		var wg sync.WaitGroup
		var mu sync.Mutex
		var answers []string
		for i := range 4 {
			wg.Go(func() {
				c, err := r.Next(t.Context(), ask("send", fmt.Sprintf(`{"n":%d}`, 4-i)))
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				if c.Answer != nil {
					answers = append(answers, string(c.Answer.Value))
				}
			})
		}
		wg.Wait()
		if len(answers) != 2 {
			t.Errorf("answered from the record: %v", answers)
		}
	}
}

func TestReplayRejectsThreadsThatSkipTheRecord(t *testing.T) {
	r := interrupted(t, true, 100*time.Millisecond, ask("send", `{"n":1}`), ask("send", `{"n":2}`))
	gives(t, r, ask("send", `{"n":2}`), `1`)
	var wg sync.WaitGroup
	for i := range 3 {
		wg.Go(func() {
			_, err := r.Next(t.Context(), ask("send", fmt.Sprintf(`{"n":%d}`, 7+i)))
			if d, ok := errors.AsType[*journal.Divergence](err); !ok || d.Number != 1 {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}
