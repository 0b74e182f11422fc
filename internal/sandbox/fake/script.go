package fake

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
)

// script is one Run of one program.
type script struct {
	sandbox *Sandbox
	program sandbox.Program
	host    sandbox.Host
	vars    map[string]json.RawMessage // Program.Vars
	spawned sync.WaitGroup
	out     sandbox.Outcome
}

// stop ends a script with an outcome.
type stop struct{ out sandbox.Outcome }

func (s stop) Error() string { return s.out.Error }

func newScript(s *Sandbox, p sandbox.Program, host sandbox.Host) *script {
	return &script{sandbox: s, program: p, host: host, out: sandbox.Outcome{Status: sandbox.Completed}}
}

// run executes code line by line. Images and stderr written before a stop are part
// of the outcome.
func (s *script) run(ctx context.Context, code string) sandbox.Outcome {
	err := s.lines(ctx, code)
	s.spawned.Wait()
	if ctx.Err() != nil {
		err = interrupted(context.Cause(ctx))
	}
	if st, ok := errors.AsType[stop](err); ok {
		st.out.Images, st.out.Stderr = s.out.Images, s.out.Stderr
		return st.out
	}
	return s.out
}

func (s *script) lines(ctx context.Context, code string) error {
	if len(s.program.Vars) > 0 {
		if err := json.Unmarshal(s.program.Vars, &s.vars); err != nil {
			return raised("TypeError", "vars are not a JSON object")
		}
	}
	for n, line := range strings.Split(code, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		if err := s.line(ctx, n+1, line); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return nil // run reports the cause
		}
	}
	if most := s.sandbox.spec.Limits.ResultBytes; most > 0 && int64(len(s.out.Result)) > most {
		return over(sandbox.LimitResult)
	}
	return nil
}

// line executes one directive.
func (s *script) line(ctx context.Context, n int, line string) error {
	word, rest, _ := strings.Cut(line, " ")
	first, last, _ := strings.Cut(rest, " ")
	switch word {
	case "print":
		return s.print(ctx, 1, rest)
	case "flood":
		times, err := strconv.Atoi(first)
		if err != nil {
			return syntax(n, line)
		}
		return s.print(ctx, times, last)
	case "stderr":
		s.out.Stderr += rest + "\n"
	case "call":
		return s.call(ctx, first, last)
	case "spawn":
		if _, served, _ := s.callNow(ctx, first, last); !served {
			s.spawned.Go(func() { _, _ = s.host.Call(ctx, first, []byte(last)) })
		}
	case "sleep":
		d, err := time.ParseDuration(rest)
		if err != nil {
			return syntax(n, line)
		}
		_ = sleep(ctx, d)
	default:
		return s.value(n, line, word, first, last, rest)
	}
	return nil
}

// value executes the directives that produce values or end the script.
func (s *script) value(n int, line, word, first, last, rest string) error {
	switch word {
	case "set":
		s.sandbox.vars[first] = json.RawMessage(last)
	case "get":
		return s.get(first)
	case "result":
		if !json.Valid([]byte(rest)) {
			return syntax(n, line)
		}
		s.out.Result = json.RawMessage(rest)
	case "string":
		size, err := strconv.Atoi(first)
		if err != nil {
			return syntax(n, line)
		}
		s.out.Result = json.RawMessage(`"` + strings.Repeat("x", size) + `"`)
	case "image":
		data, err := base64.StdEncoding.DecodeString(last)
		if err != nil {
			return syntax(n, line)
		}
		s.out.Images = append(s.out.Images, sandbox.Image{MIME: first, Data: data})
	case "raise":
		return raised(first, last)
	case "refuse":
		if s.program.Restriction != "" {
			return stop{sandbox.Outcome{Status: sandbox.Refused, Error: last, ErrorType: first}}
		}
	case "exceed":
		return over(first)
	case "crash":
		return stop{ended(sandbox.Crashed, "the interpreter died")}
	default:
		return syntax(n, line)
	}
	return nil
}

func (s *script) print(ctx context.Context, times int, text string) error {
	for range times {
		if ctx.Err() != nil {
			return nil
		}
		if s.host.Output([]byte(text)) != nil {
			return stop{ended(sandbox.Cancelled, "the host rejected the output")}
		}
	}
	return nil
}

// callNow serves a call at once if the host can.
func (s *script) callNow(ctx context.Context, method, args string) (res []byte, served bool, err error) {
	if quick, ok := s.host.(sandbox.QuickCaller); ok {
		return quick.CallNow(ctx, method, []byte(args))
	}
	return nil, false, nil
}

func (s *script) call(ctx context.Context, method, args string) error {
	res, served, err := s.callNow(ctx, method, args)
	if !served {
		res, err = s.host.Call(ctx, method, []byte(args))
	}
	if err != nil {
		return raised(exception(err), fault.Message(err))
	}
	s.out.Result = res
	return nil
}

func (s *script) get(name string) error {
	v, ok := s.vars[name]
	if !ok {
		v, ok = s.sandbox.vars[name]
	}
	if !ok {
		return raised("NameError", fmt.Sprintf("name '%s' is not defined", name))
	}
	s.out.Result = v
	return nil
}

// exception returns the Python exception for an error of the host.
func exception(err error) string {
	switch fault.KindOf(err) {
	case fault.Invalid:
		return "ValueError"
	case fault.NotFound:
		return "FileNotFoundError"
	case fault.Denied:
		return "PermissionError"
	default:
		return "RuntimeError"
	}
}

func over(limit string) error {
	out := ended(sandbox.OverLimit, limit+" limit reached")
	out.Limit = limit
	return stop{out}
}

func raised(kind, message string) error {
	return stop{sandbox.Outcome{
		Status: sandbox.Raised, Error: message, ErrorType: kind,
		Traceback: "Traceback (most recent call last):\n" + kind + ": " + message,
	}}
}

func syntax(n int, line string) error {
	return raised("SyntaxError", fmt.Sprintf("invalid syntax in line %d: %.80s", n, line))
}

// interrupted returns the outcome of a run whose context ended with cause.
func interrupted(cause error) error {
	if errors.Is(cause, sandbox.ErrTimeout) {
		return stop{ended(sandbox.TimedOut, sandbox.ErrTimeout.Error())}
	}
	return stop{ended(sandbox.Cancelled, "cancelled")}
}
