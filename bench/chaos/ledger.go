package chaos

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
)

// kind is a way to keep a value.
type kind string

const (
	file  kind = "file"  // written by the tool
	code  kind = "code"  // written by running code
	skill kind = "skill" // saved by the tool
	step  kind = "step"  // a step of a session: its key is the session, its version how many there are
)

// key is where a value is kept: only one writer at a time writes to it.
type key struct {
	kind kind
	name string
}

// entry is what is known of a key's value. Versions count from 1.
type entry struct {
	acknowledged int // the latest version that is known to be kept; 0 is none
	begun        int // the latest that was asked for: after a kill it may be there, too
}

// ledger is what the program has been asked to keep, and what it has
// acknowledged.
type ledger struct {
	mu      sync.Mutex
	entries map[key]entry
}

func newLedger() *ledger { return &ledger{entries: map[key]entry{}} }

// begin notes that a next version is going to be asked for, and returns it.
func (l *ledger) begin(k key) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.entries[k]
	e.begun++
	l.entries[k] = e
	return e.begun
}

// acknowledge notes that the version that was asked for last is kept.
func (l *ledger) acknowledge(k key) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.entries[k]
	e.acknowledged = e.begun
	l.entries[k] = e
}

// found settles what a key holds after a kill.
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

// stepCode is the code of a step of a session, of its version.
const stepCode = "result = %d"

// content is what version of k holds: text of any length up to 100 KB, the same
// each time it is asked for, and valid Python.
func content(k key, version int) string {
	id := fmt.Sprintf("%s %s %d", k.kind, k.name, version)
	var seed uint64
	for _, b := range []byte(id) {
		seed = seed*31 + uint64(b)
	}
	size := 20 << rand.New(rand.NewPCG(seed, 1)).IntN(12)
	return "# " + strings.Repeat(id+" ", size/len(id)+1) + "\nvalue = " + fmt.Sprintf("%q", id) + "\n"
}
