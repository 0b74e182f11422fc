package journal

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
)

// Limits of one record.
const (
	maxWaiting = 16 << 20 // bytes in memory that wait for the next commit
	maxRun     = 64 << 20 // bytes in all
)

// HostCall is a call of the code to the host.
type HostCall struct {
	Method string   // of the host; "" for a tool
	Ref    tool.Ref // tool, or server that the method addresses
	Args   json.RawMessage
	Step   int // number of the step that makes the call; 0 for none
}

// key identifies equal host calls; calls with the same key are distinguished by their order.
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
	case a.Method == methodStep:
		return a.stepName()
	case a.Ref.Server != "":
		return a.Method + " of " + a.Ref.Server
	}
	return a.Method
}

// RecordedCall is the record of one HostCall.
type RecordedCall struct {
	Number int
	Answer *Answer // nil if none is recorded
	Begun  bool    // it began and has no answer: its outcome is unknown
}

// States of an entry.
const (
	asked    = "pending"  // it has had no side effect
	begun    = "begun"    // its outcome is unknown
	answered = "answered" // the answer is recorded
	unsure   = "unknown"  // the answer is recorded: that of a call whose outcome is unknown
)

// Methods of entries that are not host calls: clock readings of the code; questions to a person,
// with the number of the question, what identifies it and the end of its time as the arguments; and imports of skills.
const (
	readings  = "clock"
	question  = "question"
	skillUsed = "skill"
)

// entry is one host call of a record.
type entry struct {
	number int
	ask    HostCall
	state  string
	answer []byte // JSON of an Answer, or of readings
	call   int64  // for its end in the log of calls
	dirty  bool   // changed since the last commit
	stored bool   // the log of calls, or the database, has it
	inner  int    // of a step: bytes on disk that its end deletes
	asker  int    // of a question: number of the call that asks it, whose answer also ends the question; 0 for none
	steps  []int  // of a step: the numbers of those inside
}

// Record is the record of one execution. A nil Record is valid and records nothing.
type Record struct {
	log     *Log
	id      string
	request func() ([]byte, error)
	created time.Time
	before  End // what the run was when OpenRecord returned it

	mu      sync.Mutex
	cipher  cipher
	later   []chan struct{} // closed when a function of Later has returned
	pending pending
	replay  replay
}

// NewRecord starts the record of an execution, in memory. It calls request, which returns
// what a replay needs, before the first write to disk. Concurrent means that the code may make
// several host calls at once. It returns nil if executions are not recorded.
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
		log:     l,
		id:      id,
		request: request,
		created: time.Now(),
		pending: pending{open: map[int]*entry{}},
		replay:  newReplay(concurrent),
	}
}

// AddClockReadings records clock readings of the code, in a step or, with 0, outside of steps.
func (r *Record) AddClockReadings(step int, read []int64) {
	if r == nil || len(read) == 0 {
		return
	}
	b, err := json.Marshal(read)
	if err != nil { // cannot happen: integers have a JSON form
		panic(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pending.note(readings, step, b)
}

// Begin records that a call with possible side effects is about to be made. The call and all
// earlier host calls are on disk when Begin returns.
func (r *Record) Begin(ctx context.Context, c tool.Call) error {
	r.waitForLater()
	r.mu.Lock()
	e := r.pending.open[c.Number]
	if e == nil {
		r.mu.Unlock()
		return fault.New(fault.Internal, "call %d of %s is not open", c.Number, c.Ref)
	}
	e.state, e.call = begun, r.log.calls.begun.Add(1)
	r.pending.mark(e)
	return r.commit(ctx, []line{callBegins(e.call, c)}, false)
}

// Done records the outcome of a call that began, before the code gets the answer. The outcome
// is written when Done returns, and synced within 50 milliseconds. With a nil answer, a replay
// makes the call again if it was not made or failed.
func (r *Record) Done(ctx context.Context, number int, o Outcome, a *Answer) error {
	r.mu.Lock()
	e := r.pending.open[number]
	if e == nil {
		r.mu.Unlock()
		return fault.New(fault.Internal, "call %d is not open", number)
	}
	switch {
	case a != nil:
		r.pending.answer(e, *a)
	case o == NotMade || o == Failed:
		e.state = asked
		r.pending.mark(e)
	}
	return r.commit(ctx, []line{callEnds(e.call, o)}, true)
}

// SetAnswer records an answer in memory; the next commit writes it to disk.
func (r *Record) SetAnswer(number int, a Answer) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if e := r.pending.open[number]; e != nil {
		r.pending.answer(e, a)
	}
}

// Flush writes the record to disk.
func (r *Record) Flush(ctx context.Context) error {
	if r == nil {
		return nil
	}
	r.waitForLater()
	r.mu.Lock()
	return r.commit(ctx, nil, false)
}

// Later runs f, which records a large answer, while the code already has the answer. The
// next Begin, Flush, AddQuestion and End wait for f. If this process ends before, the call
// has an unknown outcome, although the code may have used the answer; it has made no call
// with possible side effects since.
func (r *Record) Later(f func()) {
	r.waitForLater() // bounds the answers in memory
	done := make(chan struct{})
	r.mu.Lock()
	r.later = append(r.later, done)
	r.mu.Unlock()
	go func() {
		f()
		r.mu.Lock()
		defer r.mu.Unlock()
		r.later = slices.DeleteFunc(r.later, func(c chan struct{}) bool { return c == done })
		close(done)
	}()
}

// waitForLater returns when the functions of Later have returned.
func (r *Record) waitForLater() {
	r.mu.Lock()
	later := slices.Clone(r.later)
	r.mu.Unlock()
	for _, done := range later {
		<-done
	}
}

// AddQuestion records that the call of ctx is about to ask the question with this number, and writes the
// record to disk, because an answer may take long. What is asked is identified by of, without spaces, and open until
// a time. It returns the entry's number for SetReply and EndQuestion.
func (r *Record) AddQuestion(ctx context.Context, number int, of string, until time.Time) (int, error) {
	if r == nil {
		return 0, nil
	}
	r.waitForLater()
	r.mu.Lock()
	e := r.pending.add(HostCall{Method: question, Args: fmt.Appendf(nil, "%d %s %d", number, of, until.UnixMilli())})
	e.asker = callOf(ctx)
	endUnasked(r, number)
	return e.number, r.commit(ctx, nil, false)
}

// stateOf returns the state of an entry with an answer.
func stateOf(a Answer) string {
	if a.Unknown || a.Failure != nil && a.Failure.Unknown {
		return unsure
	}
	return answered
}

// setCipher sets the cipher of a record that is in memory.
func setCipher(r *Record) error {
	key, err := r.log.cfg.Process.key()
	if err == nil {
		r.cipher, err = newCipher(key, r.log.cfg.Tenant.String(), r.id)
	}
	return err
}

// encryptRequest returns the encrypted request.
func encryptRequest(r *Record) ([]byte, error) {
	if err := setCipher(r); err != nil {
		return nil, err
	}
	request, err := r.request()
	if err != nil {
		return nil, err
	}
	return r.cipher.encrypt(ofRequest, 0, request), nil
}

// Stored reports whether the record is on disk.
func (r *Record) Stored() bool {
	if r == nil {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.pending.stored
}

// TooLarge reports that the record exceeded a limit, so that the execution cannot be resumed.
func (r *Record) TooLarge() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.pending.large
}
