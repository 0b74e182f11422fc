package redact_test

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/longtest"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
)

// TestMemoryOfLargeText processes texts of 8 MB. Those that resemble JSON, tokens and encodings are
// the worst ones known; a text with hundreds of thousands of values once took minutes.
func TestMemoryOfLargeText(t *testing.T) {
	longtest.SkipSlow(t)
	const size, most = 8 << 20, 5 * slack
	repeat := func(unit func(i int) string) string {
		var b strings.Builder
		for i := 0; b.Len() < size; i++ {
			b.WriteString(unit(i))
		}
		return b.String()
	}
	for _, c := range []struct {
		name, before, after string
		unit                func(i int) string
		refused             bool // there are too many values
	}{
		{name: "one value", unit: func(int) string { return "mail ada@example.com today, " }},
		{name: "values", unit: func(i int) string { return fmt.Sprintf("u%d@example.com ", i) }, refused: true},
		{name: "rows", before: "[", after: "1]", unit: func(i int) string {
			return fmt.Sprintf(`{"name":"Ada L%d","email":"u%d@example.com","note":"paid late, twice"},`, i%2000, i%2000)
		}},
		{name: "strings", before: "[", after: "1]", unit: func(int) string { return `"a",` }},
		{name: "escaped strings", before: "[", after: "1]", unit: func(int) string { return `"\u0041",` }},
		{name: "tokens", unit: func(int) string { return "[EMAIL_aaaaaaaaaaaaaaaa]" }},
		{name: "base64", unit: func(int) string { return "QUFBQUFBQUFBQUFB " }},
		{name: "letters", unit: func(int) string { return "a b " }},
	} {
		t.Run(c.name, func(t *testing.T) {
			text := c.before + repeat(c.unit) + c.after
			e := newRig(t, redact.Config{Mode: redact.Egress}).gate()
			if _, _, err := e.Tokens().Sanitize(t.Context(), "ada@example.com"); err != nil { // opens the vault and its index
				t.Fatal(err)
			}
			defer debug.SetGCPercent(debug.SetGCPercent(20))
			runtime.GC()
			peak := watchHeap()
			_, _, err := e.Tokens().Sanitize(t.Context(), text)
			used := peak()
			if refused := fault.KindOf(err) == fault.Exhausted; refused != c.refused || err != nil && !refused {
				t.Error(err)
			}
			if t.Logf("%.1f times the text", float64(used)/size); used > most*size {
				t.Errorf("%d MB were used for %d MB of text", used>>20, size>>20)
			}
		})
	}
}

// watchHeap returns a function that returns how much more memory was live at the end of some
// collection since.
func watchHeap() (peak func() uint64) {
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	before, most := live[0].Value.Uint64(), uint64(0)
	stop, stopped := make(chan struct{}), make(chan struct{})
	collected := make(chan struct{}, 1)
	watch(collected)
	go func() {
		defer close(stopped)
		for {
			select {
			case <-collected:
				metrics.Read(live)
				most = max(most, live[0].Value.Uint64())
				watch(collected)
			case <-stop:
				return
			}
		}
	}()
	return func() uint64 {
		close(stop)
		<-stopped
		return max(most, before) - before
	}
}

// watch sends when the next collection has ended.
func watch(collected chan<- struct{}) {
	runtime.AddCleanup(new([16]int), func(c chan<- struct{}) {
		select {
		case c <- struct{}{}:
		default:
		}
	}, collected)
}
