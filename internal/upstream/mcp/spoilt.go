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
const peek = 256

// spoilt deals with a message that cannot be read: an answer ends its request,
// anything else is noise.
func (t *tap) spoilt(data []byte) []byte {
	if id, ok := t.whose(data[:min(peek, len(data))], data[max(0, len(data)-peek):]); ok {
		return t.fail(id, ErrMalformed)
	}
	t.noise(sanitize.Line(string(data[:min(1<<10, len(data))]), 200))
	return nil
}

// tooLarge ends the request that a message answers, of which only the beginning
// and the end are there; if they do not tell, it ends all requests.
func (t *tap) tooLarge(head, tail []byte) (pass [][]byte) {
	if id, ok := t.whose(head, tail); ok {
		return [][]byte{t.fail(id, ErrTooLarge)}
	}
	t.noise("a message that is too large")
	ids := t.underWay()
	for _, id := range ids {
		pass = append(pass, t.fail(id, ErrTooLarge))
		if len(ids) > 1 { // all but one may still go on
			t.giveUp(id)
		}
	}
	return pass
}

// whose finds the request that a message answers.
func (t *tap) whose(head, tail []byte) (id int64, ok bool) {
	for _, found := range [][][]byte{idFirst.FindSubmatch(head), idLast.FindSubmatch(tail)} {
		if found == nil {
			continue
		}
		id, _ := strconv.ParseInt(string(found[1]), 10, 64)
		t.mu.Lock()
		_, known := t.sent[id]
		t.mu.Unlock()
		if known {
			return id, true
		}
	}
	return 0, false
}

func (t *tap) underWay() (ids []int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for id := range t.sent {
		ids = append(ids, id)
	}
	return ids
}

func (t *tap) giveUp(id int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lost[id] = true
}

// fail ends a request for err.
func (t *tap) fail(id int64, err error) []byte {
	if err == ErrTooLarge {
		t.free()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if a := t.sent[id]; a != nil {
		a.err = err
	}
	delete(t.sent, id)
	return failed(id, err)
}

// waits tells whether a request has no answer yet.
func (t *tap) waits(id int64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, ok := t.sent[id]
	return ok
}
