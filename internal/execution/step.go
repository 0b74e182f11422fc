package execution

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/execution/reply"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home/session"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
)

// stateDir is the workspace directory in which the files of a session are detected.
const stateDir = "state"

// logTimeout limits writing a step to the log.
const logTimeout = 10 * time.Second

// step is one execution as a step of a session. It holds the session's turn until leave.
type step struct {
	*executor
	interpreter *interpreter
	held        bool // by RebuildSession, which releases it
	state       string
	replaced    bool // its live interpreter could not follow other settings
	began       time.Time

	mu     sync.Mutex // guards number: code may call checkpoint from several threads
	number int        // in the log, if a checkpoint has reserved one; else 0
}

// enterStep waits for the turn of the request's session.
func (e *executor) enterStep(ctx context.Context) (*step, error) {
	if again := e.req.Replay; again != nil && again.turn != nil {
		return &step{executor: e, interpreter: again.turn, held: true}, nil
	}
	in, err := e.r.interpreters.acquire(ctx, sessionKey{e.home.ID(), e.req.SessionID})
	if err != nil {
		return nil, err
	}
	return &step{executor: e, interpreter: in}, nil
}

func (s *step) leave() {
	if !s.held {
		s.r.interpreters.release(s.interpreter)
	}
}

// openSandbox returns the session's live interpreter, or starts one.
func (s *step) openSandbox(ctx context.Context) (sandbox.Sandbox, error) {
	in, asked := s.interpreter, s.req.MemoryMB
	live := s.r.interpreters.thaw(in)
	if live && in.subset != s.req.Subset {
		return nil, otherSubset(s.req.SessionID, in.subset, s.req.Subset)
	}
	if live && s.mayNotKeep(in) {
		s.r.interpreters.end(in)
		live, s.replaced = false, true
	}
	if live {
		if err := s.checkSandbox(ctx, in); err != nil {
			return nil, err
		}
		s.state, s.req.MemoryMB = reply.SessionLive, in.memoryMB
		if asked != 0 && asked != in.memoryMB {
			return nil, fault.New(fault.Invalid, "memory_mb is %d, but the interpreter of session %q was started with %d", asked, s.req.SessionID, in.memoryMB).
				WithHint("omit memory_mb, or use another session_id")
		}
	} else {
		s.req.MemoryMB = orDefault(asked, s.settings.Limits.MemoryMB)
		if err := s.start(ctx); err != nil {
			return nil, err
		}
	}
	s.began = time.Now()
	return in.box, nil
}

// start starts a fresh interpreter for the session.
func (s *step) start(ctx context.Context) error {
	old, err := s.home.Sessions.Exists(ctx, s.req.SessionID)
	if err != nil {
		return err
	}
	if s.state = reply.SessionNew; old {
		s.state = reply.SessionRestarted
	}
	if err := s.r.interpreters.reserve(ctx, s.interpreter); err != nil {
		return err
	}
	box, err := s.newSandbox(ctx)
	if err != nil {
		s.r.interpreters.end(s.interpreter)
		return err
	}
	s.interpreter.box, s.interpreter.memoryMB, s.interpreter.fresh = box, s.req.MemoryMB, old && s.req.Replay == nil
	s.interpreter.id = rand.Text()
	s.interpreter.subset, s.interpreter.selection = s.req.Subset, s.selection()
	s.interpreter.mode, s.interpreter.limits = s.privacy.Mode(), s.sandboxLimits()
	s.interpreter.sandbox, s.interpreter.layer = s.sandbox, s.settings.PackageLayer
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
	return fault.New(fault.Invalid, "session %q has the servers of %s, and this request those of %s; a running session keeps its servers", session, path(has), path(asked)).
		WithHint("use another session_id for %s", path(asked))
}

// mayNotKeep reports whether the tenant's settings have changed in a way that a live interpreter
// cannot follow: its modules are of other servers and tools, its sandbox is too weak, it has other
// packages, it has values in place of tokens or the reverse, or its limits are too high.
func (s *step) mayNotKeep(in *interpreter) bool {
	above := func(started, now int64) bool { return now != 0 && (started == 0 || started > now) }
	now := s.sandboxLimits()
	return in.selection != s.selection() || !in.sandbox.Satisfies(s.settings.Sandbox) || in.layer != s.settings.PackageLayer || in.mode != s.privacy.Mode() || in.memoryMB > s.settings.Limits.MaxMemoryMB ||
		above(in.limits.WorkspaceDisk, now.WorkspaceDisk) || above(in.limits.WorkspaceFiles, now.WorkspaceFiles)
}

// end appends the step to the session's log before its answer is returned, which reports
// a failure to do so. An interpreter that did not complete the code is ended.
func (s *step) end(res reply.Result, err error) (reply.Result, error) {
	lost := err != nil || !res.Status.Reusable()
	if lost {
		s.state = reply.SessionEnded
		s.r.interpreters.end(s.interpreter)
	}
	if err != nil {
		return res, err
	}
	res.Session = &reply.Session{ID: s.req.SessionID, State: s.state, Note: s.note()}
	if s.req.Replay != nil {
		res.Unrepeated = s.run.record.Left()
		return res, nil
	}
	if why := s.log(res, lost); why != "" { // the code has run nevertheless
		res.Session.Note = strings.TrimPrefix(res.Session.Note+"; "+why, "; ")
	}
	return res, nil
}

func (s *step) note() string {
	rebuild := fmt.Sprintf("to restore them resume_session, or `sandpiper session resume %[1]s`, replays its tasks without repeating calls; their code is in /workspace/sessions/%[1]s.json", s.req.SessionID)
	switch {
	case s.replaced && s.state == reply.SessionRestarted:
		return "the operator has changed the settings, and the session has a fresh interpreter: variables of earlier calls are lost; " + rebuild
	case s.state == reply.SessionRestarted:
		return "the session has a fresh interpreter: variables of earlier calls are lost; " + rebuild
	case s.state == reply.SessionEnded:
		return "the session's interpreter has ended: its variables are lost, and the next call gets a fresh one; " + rebuild
	}
	return ""
}

// log appends the step to the session's log. It returns an explanation if that fails,
// else "".
func (s *step) log(res reply.Result, lost bool) string {
	ctx, cancel := context.WithTimeout(context.Background(), logTimeout) // independent of the caller's context
	defer cancel()
	logged := session.Step{
		Number: s.number, Description: s.req.Description, Code: s.req.Code, Vars: s.req.Vars, InterpreterLost: lost, Fresh: s.interpreter.fresh,
		Result: res.LogText(), Output: res.LogOutput(), Began: s.began, Files: s.files(ctx),
	}
	var err error
	if !lost { // it is never replayed otherwise
		logged.Record, logged.Recorded, err = s.calls()
	}
	key := ""
	if err == nil {
		key, err = s.home.Sessions.Append(ctx, s.req.SessionID, logged)
	}
	if err == nil && !lost {
		s.interpreter.addStep(key)
	}
	if err != nil {
		s.r.cfg.Log.Error("append a step to a session's log", "error", err)
		return fmt.Sprintf("this task is not in the log of session %q, which could not be written: %s", s.req.SessionID, fault.Message(err))
	}
	return ""
}

// calls returns the record of the step's calls for the log.
func (s *step) calls() ([]byte, session.Recorded, error) {
	content, ok, err := s.run.record.Encode()
	if !ok {
		return nil, session.RecordTooLarge, err
	}
	return content, session.Complete, nil
}

// locals returns the tokens known to code of the session's interpreter, or of one
// execution outside a session.
func (s *step) locals() *redact.LocalTokens {
	if s == nil {
		return redact.NewLocalTokens()
	}
	if s.interpreter.locals == nil {
		s.interpreter.locals = redact.NewLocalTokens()
	}
	return s.interpreter.locals
}

// files returns the files of /workspace/state that were written during the step; none if
// the directory cannot be read.
func (s *step) files(ctx context.Context) []string {
	changed, _ := s.home.Workspace.Changed(ctx, stateDir, s.began)
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

// checkpoint stores a checkpoint of the code. It is durable when it returns.
func (s *step) checkpoint(ctx context.Context, c checkpoint) error {
	if s == nil {
		return fault.New(fault.Invalid, "checkpoint() stores the progress of a session, but this code runs without one").
			WithHint("pass a session_id with the code")
	}
	if s.req.Replay != nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	number, err := s.home.Sessions.Checkpoint(ctx, s.req.SessionID, s.number, c.Step, c.Context)
	if err == nil {
		s.number = number
	}
	return err
}
