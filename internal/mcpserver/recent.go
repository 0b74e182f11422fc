package mcpserver

import (
	"encoding/json"
	"slices"
	"strings"
	"sync"

	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

// recentAnswers keeps the last answers of each tenant that contained tokens, as they were sent: without
// values.
type recentAnswers struct {
	mu  sync.Mutex
	all []recentAnswer // the latest last
}

type recentAnswer struct {
	tenant    tenant.ID
	execution string
	text      string // its output and result
}

// Limits of recentAnswers. The bytes are those of the texts.
const (
	maxRecent      = 64        // answers of a tenant
	maxRecentBytes = 256 << 10 // of one answer
	maxTenantBytes = 1 << 20
	maxAllRecent   = 4096 // answers of all tenants
	maxAllBytes    = 16 << 20
)

// add keeps an answer about an execution, if it contains tokens. It drops the oldest answers beyond the
// limits, those of the tenant first.
func (r *recentAnswers) add(id tenant.ID, answer string) {
	if len(answer) > maxRecentBytes || !strings.Contains(answer, `"private":"`) {
		return
	}
	execution, text, ok := shownIn(answer)
	if !ok {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(slices.DeleteFunc(r.all, func(o recentAnswer) bool { return o.tenant == id && o.execution == execution }),
		recentAnswer{id, execution, text})
	var of, total struct{ answers, bytes int } // from the latest on
	for i := len(r.all) - 1; i >= 0; i-- {
		a := r.all[i]
		total.answers, total.bytes = total.answers+1, total.bytes+len(a.text)
		exceeded := total.answers > maxAllRecent || total.bytes > maxAllBytes
		if a.tenant == id {
			of.answers, of.bytes = of.answers+1, of.bytes+len(a.text)
			exceeded = exceeded || of.answers > maxRecent || of.bytes > maxTenantBytes
		}
		if exceeded {
			total.answers, total.bytes = total.answers-1, total.bytes-len(a.text)
			r.all = slices.Delete(r.all, i, i+1)
		}
	}
}

// shownIn returns the output, result and error in an answer about an execution.
func shownIn(answer string) (execution, text string, ok bool) {
	var a struct {
		Execution string          `json:"execution_id"`
		Result    json.RawMessage `json:"result"`
		Output    []string        `json:"output"`
		Error     string          `json:"error"`
	}
	if json.Unmarshal([]byte(answer), &a) != nil || a.Execution == "" {
		return "", "", false
	}
	parts := a.Output
	switch {
	case json.Unmarshal(a.Result, &text) == nil && text != "":
		parts = append(parts, text)
	case len(a.Result) > 0 && string(a.Result) != "null":
		parts = append(parts, string(a.Result))
	}
	if a.Error != "" {
		parts = append(parts, a.Error)
	}
	return a.Execution, strings.Join(parts, "\n"), true
}

// findParam returns the output and result of an execution of a tenant, with tokens.
func (r *recentAnswers) find(id tenant.ID, execution string) (text string, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	i := slices.IndexFunc(r.all, func(a recentAnswer) bool { return a.tenant == id && a.execution == execution })
	if i < 0 {
		return "", false
	}
	return r.all[i].text, true
}
