package execution

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/home/session"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
)

// stateDir is where the files of a session's own are looked for.
const stateDir = "state"

// logWait bounds how long writing a step to the log may take.
const logWait = 10 * time.Second

// step is one execution as a step of a session. It has the session's turn until
// leave.
type step struct {
	r     *Runner
	home  *home.Home
	req   Request
	in    *interpreter
	state string
	began time.Time

	mu     sync.Mutex // of number: code may call checkpoint from several threads
	number int        // in the log, once a checkpoint has taken one; else 0
}

// enter waits for the turn of the request's session.
func (r *Runner) enter(ctx context.Context, home *home.Home, req Request) (*step, error) {
	in, err := r.living.enter(ctx, seat{home.ID(), req.SessionID})
	if err != nil {
		return nil, err
	}
	return &step{r: r, home: home, req: req, in: in}, nil
}

func (s *step) leave() { s.r.living.leave(s.in) }

// sandbox returns the session's living interpreter, or starts one.
func (s *step) sandbox(ctx context.Context, req *Request) (sandbox.Sandbox, error) {
	in, asked := s.in, req.MemoryMB
	if s.r.living.wake(in) {
		s.state, req.MemoryMB = SessionLive, in.mb
		if asked != 0 && asked != in.mb {
			return nil, fault.New(fault.Invalid, "memory_mb is %d, but the interpreter of session %q has %d, fixed when it started", asked, req.SessionID, in.mb).
				WithHint("leave memory_mb out, or use another session_id")
		}
	} else {
		req.MemoryMB = or(asked, s.r.cfg.Limits.MemoryMB)
		if err := s.start(ctx, *req); err != nil {
			return nil, err
		}
	}
	s.began = time.Now()
	return in.box, nil
}

// start starts a fresh interpreter for the session.
func (s *step) start(ctx context.Context, req Request) error {
	old, err := s.home.Sessions.Exists(ctx, req.SessionID)
	if err != nil {
		return err
	}
	if s.state = SessionNew; old {
		s.state = SessionRestarted
	}
	if err := s.r.living.makeRoom(ctx, s.in); err != nil {
		return err
	}
	box, err := s.r.open(ctx, s.home, req)
	if err != nil {
		s.r.living.end(s.in)
		return err
	}
	s.in.box, s.in.mb = box, req.MemoryMB
	return nil
}

// end takes the step into the session's log, before its answer is given; the answer
// says if that failed. An interpreter that did not come to the end of the code is ended.
func (s *step) end(res Result, err error) (Result, error) {
	lost := err != nil || !res.Status.Reusable()
	if lost {
		s.state = SessionEnded
		s.r.living.end(s.in)
	}
	if err != nil {
		return res, err
	}
	res.Session = &Session{ID: s.req.SessionID, State: s.state, Note: s.note()}
	if s.req.Replay {
		return res, nil
	}
	if why := s.log(res, lost); why != "" { // the code has run all the same
		res.Session.Note = strings.TrimPrefix(res.Session.Note+"; "+why, "; ")
	}
	return res, nil
}

func (s *step) note() string {
	rebuild := fmt.Sprintf("to rebuild them run the code of the tasks in /workspace/sessions/%s.json again, or `sandpiper session resume %[1]s`", s.req.SessionID)
	switch s.state {
	case SessionRestarted:
		return "the session has a fresh interpreter: variables of earlier calls are gone; " + rebuild
	case SessionEnded:
		return "the session's interpreter has ended: its variables are gone, and the next call gets a fresh one; " + rebuild
	}
	return ""
}

// log appends the step to the log of the session. It returns why that could not be
// done, "" if it was.
func (s *step) log(res Result, lost bool) string {
	ctx, cancel := context.WithTimeout(context.Background(), logWait) // whoever asked may have gone
	defer cancel()
	_, err := s.home.Sessions.Append(ctx, s.req.SessionID, session.Step{
		Number: s.number, Code: s.req.Code, Vars: s.req.Vars, InterpreterLost: lost,
		Result: res.LogText(), Output: loggedOutput(res), Began: s.began, Files: s.files(ctx),
	})
	if err != nil {
		s.r.cfg.Log.Error("write a session's step", "error", err)
		return fmt.Sprintf("this task is not in the log of session %q, which could not be written: %s", s.req.SessionID, fault.Message(err))
	}
	return ""
}

// locals are the tokens that code of the session's interpreter knows, or of one
// execution alone.
func (s *step) locals() *redact.LocalTokens {
	if s == nil {
		return redact.NewLocalTokens()
	}
	if s.in.locals == nil {
		s.in.locals = redact.NewLocalTokens()
	}
	return s.in.locals
}

// files are the files of /workspace/state that were written while the step ran.
// A place that cannot be read has none.
func (s *step) files(ctx context.Context) []string {
	changed, _ := s.home.Workspace.Changed(ctx, stateDir, s.began)
	for i, name := range changed.Files {
		changed.Files[i] = "/workspace/" + name
	}
	return changed.Files
}

// Logged is the result as a session's log has it: the value's JSON, or "error: "
// and what went wrong.
func (r Result) LogText() string {
	switch {
	case r.Success() && len(r.Value) == 0:
		return "null"
	case r.Success():
		return string(r.Value)
	case r.Status == sandbox.Raised || r.Status == sandbox.Refused:
		return "error: " + r.ErrorType + ": " + r.Error
	}
	return "error: " + r.Error
}

func loggedOutput(r Result) string {
	all := strings.Join(r.Output, "\n")
	if r.OutputFile != nil {
		all += "\n… (" + r.OutputFile.Note + ")"
	}
	return all
}

// checkpoint is what code says of where it is.
type checkpoint struct {
	Step    json.RawMessage `json:"step"`
	Context json.RawMessage `json:"context"`
}

// checkpoint keeps what code says of where it is. It is on disk when it returns.
func (s *step) checkpoint(ctx context.Context, c checkpoint) error {
	if s == nil {
		return fault.New(fault.Invalid, "checkpoint() keeps where a session is, and this code runs in none").
			WithHint("pass a session_id with the code")
	}
	if s.req.Replay {
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
