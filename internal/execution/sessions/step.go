package sessions

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/execution/hostcall"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/reply"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home/journal"
	"github.com/sandpiper-mcp/sandpiper/internal/home/session"
	"github.com/sandpiper-mcp/sandpiper/internal/home/workspace"
	"github.com/sandpiper-mcp/sandpiper/internal/policy"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
)

// stateDir is the workspace directory in which the files of a session are detected.
const stateDir = "state"

// logTimeout limits writing a step to the log.
const logTimeout = 10 * time.Second

// Spec describes an interpreter: what its tenant could do when it was started.
type Spec struct {
	MemoryMB  int
	Subset    string // of the servers, chosen by its caller
	Selection string // of servers and tools
	Sandbox   policy.Sandbox
	Layer     string // of packages
	Mode      redact.Mode
	// Limits of the tenant's workspace; 0 means none.
	WorkspaceDisk, WorkspaceFiles int64
}

// allows reports whether the settings of the tenant now allow a live interpreter: otherwise its modules
// are of other servers and tools, its sandbox is too weak, it has other packages, it has values in place of
// tokens or the reverse, or its limits are too high.
func (now Spec) allows(in Spec, maxMemoryMB int) bool {
	above := func(started, now int64) bool { return now != 0 && (started == 0 || started > now) }
	return in.Selection == now.Selection && in.Sandbox.Satisfies(now.Sandbox) && in.Layer == now.Layer && in.Mode == now.Mode &&
		in.MemoryMB <= maxMemoryMB &&
		!above(in.WorkspaceDisk, now.WorkspaceDisk) && !above(in.WorkspaceFiles, now.WorkspaceFiles)
}

// Step is one execution as a step of a session. It holds the session's turn until Leave.
type Step struct {
	Config
	pool     *Pool
	in       *Interpreter
	state    string
	replaced bool // its live interpreter could not follow other settings
	began    time.Time

	mu     sync.Mutex // guards number: code may call checkpoint from several threads
	number int        // in the log, if a checkpoint has reserved one; else 0
}

// Config of a Step.
type Config struct {
	Key
	Acquired  *Interpreter // whose turn Rebuild has; nil if the step waits for it
	Replayed  bool         // the step is not logged
	Log       *session.Log
	Workspace *workspace.Files
}

// Enter waits for the turn of the session.
func (p *Pool) Enter(ctx context.Context, cfg Config) (*Step, error) {
	if cfg.Acquired != nil {
		return &Step{Config: cfg, pool: p, in: cfg.Acquired}, nil
	}
	in, err := p.acquire(ctx, cfg.Key)
	if err != nil {
		return nil, err
	}
	return &Step{Config: cfg, pool: p, in: in}, nil
}

// Leave passes the turn on.
func (s *Step) Leave() {
	if s.Acquired == nil {
		s.pool.release(s.in)
	}
}

// Want describes the interpreter that a step needs.
type Want struct {
	Spec                   // MemoryMB 0 means that of the live interpreter, or DefaultMB
	DefaultMB, MaxMemoryMB int
	// Check returns an error if the code may not run in the sandbox of the live interpreter.
	Check func(context.Context, policy.Sandbox) error
	// Open opens a sandbox, and describes it.
	Open func(ctx context.Context, memoryMB int) (sandbox.Sandbox, Spec, error)
}

// Open returns the session's live interpreter, or starts one.
func (s *Step) Open(ctx context.Context, w Want) (sandbox.Sandbox, Spec, error) {
	in := s.in
	live := s.pool.thaw(in)
	if live && in.Subset != w.Subset {
		return nil, in.Spec, otherSubset(s.Session, in.Subset, w.Subset)
	}
	if live && !w.Spec.allows(in.Spec, w.MaxMemoryMB) {
		s.pool.end(in)
		live, s.replaced = false, true
	}
	begin := s.start
	if live {
		begin = s.resume
	}
	err := begin(ctx, w)
	s.began = time.Now()
	return in.sandbox, in.Spec, err
}

// resume checks whether the step can continue the live interpreter.
func (s *Step) resume(ctx context.Context, w Want) error {
	if err := w.Check(ctx, s.in.Sandbox); err != nil {
		return err
	}
	s.state = reply.SessionLive
	if has := s.in.MemoryMB; w.MemoryMB != 0 && w.MemoryMB != has {
		return fault.New(fault.Invalid, "memory_mb is %d, but the interpreter of session %q was started with %d", w.MemoryMB, s.Session,
			has).
			WithHint("omit memory_mb, or use another session_id")
	}
	return nil
}

// start starts a fresh interpreter for the session.
func (s *Step) start(ctx context.Context, w Want) error {
	old, err := s.Log.Exists(ctx, s.Session)
	if err != nil {
		return err
	}
	if s.state = reply.SessionNew; old {
		s.state = reply.SessionRestarted
	}
	if err := s.pool.reserve(ctx, s.in); err != nil {
		return err
	}
	sb, is, err := w.Open(ctx, cmp.Or(w.MemoryMB, w.DefaultMB))
	if err != nil {
		s.pool.end(s.in)
		return err
	}
	s.in.sandbox, s.in.Spec, s.in.fresh, s.in.id = sb, is, old && !s.Replayed, rand.Text()
	return nil
}

// otherSubset returns the error for a session whose live interpreter has the modules of another
// subset of the servers. Ending it would lose the variables of its other caller.
func otherSubset(session, has, asked string) error {
	path := func(subset string) string {
		if subset == "" {
			return "/mcp"
		}
		return "/mcp/p/" + subset
	}
	return fault.New(fault.Invalid, "session %q has the servers of %s, and this request those of %s; a running session keeps its servers",
		session, path(has), path(asked)).
		WithHint("use another session_id for %s", path(asked))
}

// End appends the step to the session's log before its answer is returned, which reports
// a failure to do so. An interpreter that did not complete the code is ended. logged has the code, its
// description and its variables.
func (s *Step) End(res reply.Result, err error, logged session.Step, record *journal.Record) (reply.Result, error) {
	lost := err != nil || !res.Status.Reusable()
	if lost {
		s.state = reply.SessionEnded
		s.pool.end(s.in)
	}
	if err != nil {
		return res, err
	}
	res.Session = &reply.Session{ID: s.Session, State: s.state, Note: s.note()}
	if s.Replayed {
		res.Unrepeated = journal.Left(record)
		return res, nil
	}
	logged.InterpreterLost = lost
	logged.Result, logged.Output = res.LogText(), res.LogOutput()
	if err := s.append(logged, record); err != nil { // the code has run nevertheless
		s.pool.log.Error("append a step to a session's log", "error", err)
		why := fmt.Sprintf("this task is not in the log of session %q, which could not be written: %s", s.Session, fault.Message(err))
		res.Session.Note = strings.TrimPrefix(res.Session.Note+"; "+why, "; ")
	}
	return res, nil
}

func (s *Step) note() string {
	rebuild := fmt.Sprintf("to restore them resume_session, or `sandpiper session resume %[1]s`, replays its tasks without repeating "+
		"calls; their code is in /workspace/sessions/%[1]s.json", s.Session)
	switch {
	case s.replaced && s.state == reply.SessionRestarted:
		return "the operator has changed the settings, and the session has a fresh interpreter: variables of earlier calls are lost; " +
			rebuild
	case s.state == reply.SessionRestarted:
		return "the session has a fresh interpreter: variables of earlier calls are lost; " + rebuild
	case s.state == reply.SessionEnded:
		return "the session's interpreter has ended: its variables are lost, and the next call gets a fresh one; " + rebuild
	}
	return ""
}

// append appends the step to the session's log.
func (s *Step) append(logged session.Step, record *journal.Record) (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), logTimeout) // independent of the caller's context
	defer cancel()
	logged.Number, logged.Fresh, logged.Began, logged.Files = s.number, s.in.fresh, s.began, s.files(ctx)
	if !logged.InterpreterLost { // it is never replayed otherwise
		if logged.Record, logged.Recorded, err = calls(record); err != nil {
			return err
		}
	}
	key, err := s.Log.Append(ctx, s.Session, logged)
	if err == nil && !logged.InterpreterLost {
		s.in.addStep(key)
	}
	return err
}

// calls returns the record of a step's calls for the log.
func calls(record *journal.Record) ([]byte, session.Recorded, error) {
	content, ok, err := journal.Encode(record)
	if !ok {
		return nil, session.RecordTooLarge, err
	}
	return content, session.Complete, nil
}

// Interpreter returns the id of the live interpreter; "" for a nil Step.
func (s *Step) Interpreter() string {
	if s == nil {
		return ""
	}
	return s.in.id
}

// Locals returns the tokens known to code of the session's interpreter, or of one
// execution outside a session.
func (s *Step) Locals() *redact.LocalTokens {
	if s == nil {
		return redact.NewLocalTokens()
	}
	if s.in.locals == nil {
		s.in.locals = redact.NewLocalTokens()
	}
	return s.in.locals
}

// files returns the files of /workspace/state that were written during the step; none if
// the directory cannot be read.
func (s *Step) files(ctx context.Context) []string {
	changed, _ := s.Workspace.Changed(ctx, stateDir, s.began)
	for i, name := range changed.Files {
		changed.Files[i] = "/workspace/" + name
	}
	return changed.Files
}

// checkpoint contains the arguments of checkpoint().
type checkpoint struct {
	Step    json.RawMessage `json:"step"`
	Context json.RawMessage `json:"context"`
}

// Methods returns the host call checkpoint of an execution; s is nil without a session.
func (s *Step) Methods() []hostcall.Method {
	return []hostcall.Method{hostcall.New("checkpoint", 0, s.checkpoint)}
}

// checkpoint stores a checkpoint of the code. It is durable when it returns.
func (s *Step) checkpoint(ctx context.Context, c checkpoint) (any, error) {
	if s == nil {
		return nil, fault.New(fault.Invalid, "checkpoint() stores the progress of a session, but this code runs without one").
			WithHint("pass a session_id with the code")
	}
	if s.Replayed {
		return nil, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	number, err := s.Log.Checkpoint(ctx, s.Session, s.number, c.Step, c.Context)
	if err == nil {
		s.number = number
	}
	return nil, err
}
