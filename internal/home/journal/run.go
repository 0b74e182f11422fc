package journal

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
)

// Bounds on what is kept.
const (
	maxWaiting = 16 << 20 // bytes of one run that wait in memory for the next call that may change something
	maxRun     = 64 << 20 // bytes of one run
)

// HostCall is one thing that code asks for.
type HostCall struct {
	Method string   // of the host; "" for a tool
	Ref    tool.Ref // of the tool, or of the server that is asked
	Args   json.RawMessage
}

// key tells asks apart: a second of the same key is another occurrence.
type key struct {
	method string
	ref    tool.Ref
	args   [sha256.Size]byte
}

func (a HostCall) key() key { return key{a.Method, a.Ref, sha256.Sum256(a.Args)} }

func (a HostCall) String() string {
	switch {
	case a.Method == "":
		return a.Ref.String()
	case a.Ref.Server != "":
		return a.Method + " of " + a.Ref.Server
	}
	return a.Method
}

// RecordedCall is what the record knows of one Ask.
type RecordedCall struct {
	Number int
	Answer *Answer // nil if none is known
	Begun  bool    // without an answer: it may have happened
}

// What is known of an entry.
const (
	asked    = "pending"  // nothing has happened yet that changes something
	begun    = "begun"    // it may have happened
	answered = "answered" // the code has the answer, or will be given it again
)

// Methods of entries that are no asks: what the code read of the clock, and that a
// person was asked, under a number that is the arguments.
const (
	readings = "clock"
	question = "question"
)

// entry is one ask of the record.
type entry struct {
	number int
	ask    HostCall
	state  string
	answer []byte // JSON of an Answer, or of readings
	id     int64  // in journal_calls
	dirty  bool   // not on disk as it is
}

// Record is the record of one execution. Its methods may be called on a nil Record,
// which records nothing.
type Record struct {
	log        *Log
	id         string
	request    func() ([]byte, error)
	created    time.Time
	concurrent bool

	mu      sync.Mutex
	box     box
	last    int              // number
	open    map[int]*entry   // that are not answered
	dirty   []*entry         // that the next commit takes along
	waiting int              // bytes of them
	kept    int              // bytes on disk, or on their way
	stored  bool             // something is on disk
	large   bool             // too large to be kept
	ended   bool             // nothing more is recorded
	writes  sync.WaitGroup   // commits on their way
	past    map[key][]*entry // that an earlier run asked for, and this one has not
	left    []*entry         // all of them, in order
	moved   chan struct{}    // closed when one of them was asked for
	clock   []int64          // that earlier runs read
	put     int              // number of the last question of earlier runs
	waited  int              // questions that nobody had answered when they ended
	differs error            // that this one does something else
}

// NewRecord begins the record of an execution, in memory. The request is what it
// takes to run it again, and is asked for when there is something to keep.
// Concurrent says that the code may ask for several things
// at once. It returns nil if runs are not kept.
func (l *Log) NewRecord(id string, request func() ([]byte, error), concurrent bool) *Record {
	if l.cfg.Process == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.running[id] = true
	return l.run(id, request, concurrent)
}

func (l *Log) run(id string, request func() ([]byte, error), concurrent bool) *Record {
	return &Record{
		log: l, id: id, request: request, created: time.Now(), concurrent: concurrent,
		open: map[int]*entry{}, past: map[key][]*entry{}, moved: make(chan struct{}),
	}
}

// AddClockReadings adds what the code read of the clock.
func (r *Record) AddClockReadings(read []int64) {
	if r == nil || len(read) == 0 {
		return
	}
	b, err := json.Marshal(read)
	if err != nil { // numbers always can be
		panic(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last++
	r.mark(&entry{number: r.last, ask: HostCall{Method: readings}, state: answered, answer: b})
}

// Begin records that a call is about to be made that may change something: the
// call, and with it all that the code asked for before, is on disk when Begin
// returns.
func (r *Record) Begin(ctx context.Context, c tool.Call) error {
	r.mu.Lock()
	e := r.open[c.Number]
	if e == nil {
		r.mu.Unlock()
		return fault.New(fault.Internal, "call %d of %s is not open", c.Number, c.Ref)
	}
	e.state = begun
	r.mark(e)
	return r.commit(ctx, r.log.begins(c, &e.id))
}

// Done records how a call ended that began; the code gets the answer after it.
// Without one, since nobody waits for it any more, it stays unknown what happened.
func (r *Record) Done(ctx context.Context, number int, o Outcome, a *Answer) error {
	r.mu.Lock()
	e := r.open[number]
	if e == nil {
		r.mu.Unlock()
		return fault.New(fault.Internal, "call %d is not open", number)
	}
	if a != nil {
		r.settle(e, *a)
	}
	return r.commit(ctx, ends(e.id, o))
}

// SetAnswer records an answer in memory. It is on disk with the next commit.
func (r *Record) SetAnswer(number int, a Answer) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if e := r.open[number]; e != nil {
		r.settle(e, a)
	}
}

// Flush has all on disk that the code has asked for.
func (r *Record) Flush(ctx context.Context) error {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	return r.commit(ctx, nil)
}

// AddQuestion records that a person is about to be asked, under a number, and has all on
// disk that the code has asked for: they may take their time. Note of what it
// returns says that they have answered.
func (r *Record) AddQuestion(ctx context.Context, number int) (int, error) {
	if r == nil {
		return 0, nil
	}
	r.mu.Lock()
	r.last++
	e := &entry{number: r.last, ask: HostCall{Method: question, Args: strconv.AppendInt(nil, int64(number), 10)}, state: asked}
	r.open[e.number] = e
	r.mark(e)
	return e.number, r.commit(ctx, nil)
}

// settle notes the answer of e. The caller holds the lock.
func (r *Record) settle(e *entry, a Answer) {
	b, err := json.Marshal(a)
	if err != nil {
		r.drop() // what has no JSON cannot be given again
		return
	}
	if e.state, e.answer = answered, b; e.dirty {
		r.grow(len(b))
	}
	delete(r.open, e.number)
	r.mark(e)
}

// first seals the request.
func (r *Record) first() ([]byte, error) {
	key, err := r.log.cfg.Process.key()
	if err != nil {
		return nil, err
	}
	if r.box, err = newBox(key, r.log.cfg.Tenant.String(), r.id); err != nil {
		return nil, err
	}
	request, err := r.request()
	if err != nil {
		return nil, err
	}
	return r.box.seal(ofRequest, 0, request), nil
}

// Stored tells whether something of the run is on disk.
func (r *Record) Stored() bool {
	if r == nil {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stored
}

// without returns all but e.
func without(all []*entry, e *entry) []*entry {
	return slices.DeleteFunc(all, func(o *entry) bool { return o == e })
}
