package mcp

import (
	"regexp"
	"strconv"

	"github.com/sandpiper-mcp/sandpiper/internal/upstream/sanitize"
)

// idFirst and idLast match the id of a response before and after its result.
var (
	idFirst = regexp.MustCompile(`^\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*"?(\d{1,18})"?\s*,`)
	idLast  = regexp.MustCompile(`,\s*"id"\s*:\s*"?(\d{1,18})"?\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$`)
)

// peekSize is how many bytes at the beginning and the end of a message are searched for
// its id.
const peekSize = 256

// handleInvalid handles malformed JSON: a response fails its request, anything else is
// reported as invalid.
func (t *interceptor) handleInvalid(data []byte) []byte {
	if id, ok := t.findRequest(data[:min(peekSize, len(data))], data[max(0, len(data)-peekSize):]); ok {
		return t.fail(id, ErrMalformed)
	}
	t.invalidMessage(sanitize.Line(string(data[:min(1<<10, len(data))]), 200))
	return nil
}

// handleTooLarge fails the request of an oversized response, of which only the beginning
// and the end are available. If they contain no id, it fails all pending requests.
func (t *interceptor) handleTooLarge(head, tail []byte) (pass [][]byte) {
	if id, ok := t.findRequest(head, tail); ok {
		return [][]byte{t.fail(id, ErrTooLarge)}
	}
	t.invalidMessage("a message that exceeds the size limit")
	ids := t.pendingIDs()
	if len(ids) == 1 {
		return [][]byte{t.fail(ids[0], ErrTooLarge)}
	}
	for _, id := range ids { // all but one may still be running
		pass = append(pass, t.fail(id, ErrMalformed))
		t.abandon(id)
	}
	return pass
}

// findRequest returns the pending request that a message answers.
func (t *inFlight) findRequest(head, tail []byte) (id int64, ok bool) {
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

func (t *inFlight) pendingIDs() (ids []int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for id := range t.pending {
		ids = append(ids, id)
	}
	return ids
}

func (t *inFlight) abandon(id int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.abandoned[id] = true
}

// fail fails a request and returns the error response for the SDK.
func (t *interceptor) fail(id int64, err error) []byte {
	if err == ErrTooLarge {
		t.scheduleFree()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	a := t.pending[id]
	delete(t.pending, id)
	if a == nil {
		return errorResponse(id, err)
	}
	a.err = err
	return a.sdkResponse()
}

// isPending reports whether a request has no response yet.
func (t *inFlight) isPending(id int64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, ok := t.pending[id]
	return ok
}
