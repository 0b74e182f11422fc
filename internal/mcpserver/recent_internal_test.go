package mcpserver

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

// TestRecentAnswersAreBounded adds many answers: a tenant loses its own oldest answers, in number and in
// bytes, and not those of another tenant.
func TestRecentAnswersAreBounded(t *testing.T) {
	id := func(name string) tenant.ID {
		id, err := tenant.ParseStored(name)
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	quiet, busy := id("quiet"), id("busy")
	r := &recentAnswers{}
	add := func(of tenant.ID, n, size int) {
		r.add(of, fmt.Sprintf(`{"execution_id":"exec_%d","private":"1","result":%q}`, n, strings.Repeat("x", size)))
	}
	count := func(of tenant.ID) (n, bytes int) {
		for _, a := range r.all {
			if a.tenant == of {
				n, bytes = n+1, bytes+len(a.text)
			}
		}
		return n, bytes
	}
	add(quiet, 0, 10)
	for i := range 100 {
		add(busy, i, 10)
	}
	if n, _ := count(busy); n != maxRecent {
		t.Errorf("%d answers are kept, want %d", n, maxRecent)
	}
	for i := range 10 {
		add(busy, 1000+i, 250_000)
	}
	if n, bytes := count(busy); bytes > maxTenantBytes || n != 4 {
		t.Errorf("%d answers of %d bytes are kept", n, bytes)
	}
	if _, ok := r.find(quiet, "exec_0"); !ok {
		t.Error("the answer of another tenant was dropped")
	}
	if _, ok := r.find(busy, "exec_1009"); !ok {
		t.Error("the last answer was dropped")
	}
	for i := range 100 {
		of := id(fmt.Sprintf("t%d", i))
		add(of, i, 250_000)
	}
	total := 0
	for _, a := range r.all {
		total += len(a.text)
	}
	if total > maxAllBytes {
		t.Errorf("%d bytes are kept", total)
	}
}
