package mcp

import (
	"regexp"
	"strconv"

	"github.com/sandpiper-mcp/sandpiper/internal/upstream/sanitize"
)

// ids are where a message may say which request it answers: servers write it
// before the result, or after it.
var (
	idFirst = regexp.MustCompile(`^\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*"?(\d{1,18})"?\s*,`)
	idLast  = regexp.MustCompile(`,\s*"id"\s*:\s*"?(\d{1,18})"?\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$`)
)

// peek is how much of the beginning and the end of a message ids are looked for
// in.
const peekSize = 256

// spoilt deals with a message that cannot be read: an answer ends its request,
// anything else is noise.
func (t *interceptor) handleInvalid(data []byte) []byte {
	if id, ok := t.findRequest(data[:min(peekSize, len(data))], data[max(0, len(data)-peekSize):]); ok {
		return t.fail(id, ErrMalformed)
	}
	t.invalidMessage(sanitize.Line(string(data[:min(1<<10, len(data))]), 200))
	return nil
}

// tooLarge ends the request that a message answers, of which only the beginning
// and the end are there; if they do not tell, it ends all requests.
func (t *interceptor) handleTooLarge(head, tail []byte) (pass [][]byte) {
	if id, ok := t.findRequest(head, tail); ok {
		return [][]byte{t.fail(id, ErrTooLarge)}
	}
	t.invalidMessage("a message that is too large")
	ids := t.pendingIDs()
	for _, id := range ids {
		pass = append(pass, t.fail(id, ErrTooLarge))
		if len(ids) > 1 { // all but one may still go on
			t.abandon(id)
		}
	}
	return pass
}

// whose finds the request that a message answers.
func (t *interceptor) findRequest(head, tail []byte) (id int64, ok bool) {
	for _, found := range [][][]byte{idFirst.FindSubmatch(head), idLast.FindSubmatch(tail)} {
		if found == nil {
			continue
		}
		id, _ := strconv.ParseInt(string(found[1]), 10, 64)
		t.mu.Lock()
		_, known := t.pending[id]
		t.mu.Unlock()
		if known {
			return id, true
		}
	}
	return 0, false
}

func (t *interceptor) pendingIDs() (ids []int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for id := range t.pending {
		ids = append(ids, id)
	}
	return ids
}

func (t *interceptor) abandon(id int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.abandoned[id] = true
}

// fail ends a request for err.
func (t *interceptor) fail(id int64, err error) []byte {
	if err == ErrTooLarge {
		t.scheduleFree()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if a := t.pending[id]; a != nil {
		a.err = err
	}
	delete(t.pending, id)
	return errorResponse(id, err)
}

// waits tells whether a request has no answer yet.
func (t *interceptor) isPending(id int64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, ok := t.pending[id]
	return ok
}
