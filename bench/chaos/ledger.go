package chaos

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
)

// kind is a way to store a value.
type kind string

const (
	file  kind = "file"  // written by a tool
	code  kind = "code"  // written by running code
	skill kind = "skill" // saved by a tool
	step  kind = "step"  // a step of a session: the key is the session, the version the number of steps
)

// key identifies a value. It has only one writer at a time.
type key struct {
	kind kind
	name string
}

// entry is the state of a key's value. Versions count from 1.
type entry struct {
	acknowledged int // the latest version that was acknowledged; 0 if there is none
	begun        int // the latest version that was sent; after a kill it may be stored, too
}

// ledger records the writes that were sent and acknowledged.
type ledger struct {
	mu      sync.Mutex
	entries map[key]entry
}

func newLedger() *ledger { return &ledger{entries: map[key]entry{}} }

// begin records the start of a write and returns its version.
func (l *ledger) begin(k key) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.entries[k]
	e.begun++
	l.entries[k] = e
	return e.begun
}

// acknowledge records that the latest version was acknowledged.
func (l *ledger) acknowledge(k key) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.entries[k]
	e.acknowledged = e.begun
	l.entries[k] = e
}

// found sets the version that a key has after a kill.
func (l *ledger) found(k key, version int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries[k] = entry{version, version}
}

func (l *ledger) find(k key) entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.entries[k]
}

func (l *ledger) keys() []key {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Collect(maps.Keys(l.entries))
}

// stepCode is the code of a session step, formatted with its version.
const stepCode = "result = %d"

// content returns the content of a version of k: valid Python of up to 100 KB. It is
// deterministic.
func content(k key, version int) string {
	id := fmt.Sprintf("%s %s %d", k.kind, k.name, version)
	var seed uint64
	for _, b := range []byte(id) {
		seed = seed*31 + uint64(b)
	}
	size := 20 << rand.New(rand.NewPCG(seed, 1)).IntN(12)
	return "# " + strings.Repeat(id+" ", size/len(id)+1) + "\nvalue = " + fmt.Sprintf("%q", id) + "\n"
}
