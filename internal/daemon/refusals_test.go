package daemon

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/audit"
)

func TestRefusalsAreAuditedOncePerMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var counts []int64
		r := newRefusals(func(l audit.Line) {
			if l.Kind != audit.Login || l.Outcome != "refused" {
				t.Errorf("got %+v", l)
			}
			counts = append(counts, l.Count)
		})
		for range 5 { // one at once, and four a minute later
			r.add()
		}
		time.Sleep(61 * time.Second)
		r.add()
		time.Sleep(10 * time.Minute)
		for range 3 {
			r.add()
		}
		r.close()
		r.close()
		if diff := cmp.Diff([]int64{1, 4, 1, 1, 2}, counts); diff != "" {
			t.Error(diff)
		}
	})
}
