package mcpserver

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/egress"
	"github.com/sandpiper-mcp/sandpiper/internal/execution"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver/wire"
	"github.com/sandpiper-mcp/sandpiper/internal/tenant"
)

func (s *Server) resumeTool() tool {
	return tool{
		name: "resume_execution", profile: Lean,
		about: "Answer an execution that waits for a person (error_type approval_required); returns its result.",
		params: []param{
			{name: "execution_id", kind: text, required: true},
			{name: "answer", kind: anything, about: "The person's, never yours; {question id: answer} for several; {\"action\":\"decline\"}"},
		},
		longest: 100_000,
		hints:   wire.Hints{Destructive: true},
		run:     s.resume,
	}
}

// ask puts questions to the person. Where the client cannot be asked meanwhile,
// the execution is parked and the answer says what is asked: done is true.
func (s *Server) ask(ctx context.Context, c call, x *execution.Execution, open []execution.Question) (m egress.Message, done bool, err error) {
	questions, err := sealed(ctx, c.exit(), open)
	if err != nil {
		return m, true, err
	}
	if c.Ask != nil {
		err := s.askNow(ctx, c, x, questions)
		if err == nil {
			return m, false, nil
		}
		s.cfg.Log.Debug("the client could not be asked", "error", err)
	}
	if err := s.cfg.Runner.Park(x); err != nil {
		return m, true, err
	}
	if c.Require != nil {
		return egress.Message{Body: ""}, true, c.Require(questions, s.state(c.home.ID(), x.ID()))
	}
	return egress.Message{Body: waiting(x.ID(), open), Failed: true}, true, nil
}

// askNow asks and hands the replies to the execution. It gives up when the
// execution has ended without them.
func (s *Server) askNow(ctx context.Context, c call, x *execution.Execution, questions []wire.Question) error {
	asking, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		select {
		case <-x.Ended():
			stop()
		case <-asking.Done():
		}
	}()
	replies, err := c.Ask(asking, questions)
	if asking.Err() != nil && ctx.Err() == nil {
		return nil // it ended
	}
	if err != nil {
		return err
	}
	_, err = s.cfg.Runner.Attach(ctx, c.home, x.ID(), answers(replies))
	if fault.KindOf(err) == fault.NotFound { // a server no longer wanted to know: what is left is asked again
		x.Again()
		return nil
	}
	return err
}

// sealed labels what comes from code or a server as such: whoever reads it should
// know that it is not Sandpiper who asks.
func sealed(ctx context.Context, exit *egress.Exit, open []execution.Question) ([]wire.Question, error) {
	var all []wire.Question
	for _, q := range open {
		text, err := exit.Seal(ctx, asker(q)+" asks: "+printable(q.Text))
		if err != nil {
			return nil, err
		}
		schema, err := exit.Outward(ctx, "", string(q.Schema))
		if err != nil {
			return nil, err
		}
		all = append(all, wire.Question{ID: q.ID, Text: text, Schema: json.RawMessage(schema)})
	}
	return all, nil
}

func asker(q execution.Question) string {
	if q.From == "" {
		return "The code that is running"
	}
	return "The tool " + printable(q.From) + ", which the code called,"
}

// printable shows control characters, by which a text could pretend to be more
// than one.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r != '\n' && (r < ' ' || r >= 0x7f && r < 0xa0 || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069) {
			return '\uFFFD'
		}
		return r
	}, s)
}

func answers(replies map[string]wire.Reply) execution.Answer {
	a := execution.Answer{}
	for id, r := range replies {
		a[id] = execution.Reply{Action: execution.Action(r.Action), Content: r.Content}
	}
	return a
}

// parked is the answer of an execution that waits.
type parked struct {
	Success     bool                 `json:"success"`
	ErrorType   string               `json:"error_type"`
	Error       string               `json:"error"`
	ExecutionID string               `json:"execution_id"`
	Questions   []execution.Question `json:"questions"`
}

func waiting(id string, open []execution.Question) parked {
	return parked{
		ErrorType: "approval_required", ExecutionID: id, Questions: open,
		Error: "the code waits for an answer from the person, and this client cannot show the question: ask them in your own words, then call resume_execution",
	}
}

// answered goes on with an execution that an earlier answer of ours asked about.
func (s *Server) answered(ctx context.Context, c call) (egress.Message, error) {
	id, ok := s.opened(c.home.ID(), c.State)
	if !ok {
		return egress.Message{}, wire.ErrState
	}
	x, err := s.cfg.Runner.Attach(ctx, c.home, id, answers(c.Replies))
	if kind := fault.KindOf(err); kind == fault.Invalid || kind == fault.NotFound { // what is still open is asked again
		x, err = s.cfg.Runner.Attach(ctx, c.home, id, nil)
	}
	if err != nil {
		return egress.Message{}, err
	}
	return s.follow(ctx, c, x)
}

// state names an execution to a client that gives it back; nobody else can make
// one, and nobody but its tenant use it.
func (s *Server) state(owner tenant.ID, id string) string { return id + "." + s.seal(owner, id) }

func (s *Server) seal(owner tenant.ID, id string) string {
	mac := hmac.New(sha256.New, s.key[:])
	mac.Write([]byte(owner.String() + "\x00" + id))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

func (s *Server) opened(owner tenant.ID, state string) (id string, ok bool) {
	id, seal, _ := strings.Cut(state, ".")
	return id, hmac.Equal([]byte(seal), []byte(s.seal(owner, id)))
}

func (s *Server) resume(ctx context.Context, c call) (egress.Message, error) {
	if c.State != "" {
		return s.answered(ctx, c)
	}
	var args struct {
		ID     string          `json:"execution_id"`
		Answer json.RawMessage `json:"answer"`
	}
	if err := c.read(&args); err != nil {
		return egress.Message{}, err
	}
	open, err := s.cfg.Runner.Questions(c.home, args.ID)
	if err != nil {
		return egress.Message{}, err
	}
	answer, err := answerTo(open, args.Answer)
	if err != nil {
		return egress.Message{}, err
	}
	x, err := s.cfg.Runner.Attach(ctx, c.home, args.ID, answer)
	if err != nil {
		return egress.Message{}, err
	}
	return s.follow(ctx, c, x)
}

// answerTo reads the answer of resume_execution: one value for one question, or
// an object of values by question id.
func answerTo(open []execution.Question, raw json.RawMessage) (execution.Answer, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	a := execution.Answer{}
	var declined struct{ Action execution.Action }
	if json.Unmarshal(raw, &declined) == nil && (declined.Action == execution.Decline || declined.Action == execution.Cancel) {
		for _, q := range open {
			a[q.ID] = execution.Reply{Action: declined.Action}
		}
		return a, nil
	}
	var byID map[string]json.RawMessage
	if json.Unmarshal(raw, &byID) != nil || !names(open, byID) {
		if len(open) != 1 {
			return nil, fault.New(fault.Invalid, "%d questions are open; give the answers as an object by question id", len(open))
		}
		byID = map[string]json.RawMessage{open[0].ID: raw}
	}
	for _, q := range open {
		if v, given := byID[q.ID]; given {
			a[q.ID] = execution.Reply{Action: execution.Accept, Content: q.Fill(v)}
		}
	}
	return a, nil
}

// names tells whether all keys of an object are ids of questions.
func names(open []execution.Question, byID map[string]json.RawMessage) bool {
	known := 0
	for _, q := range open {
		if _, ok := byID[q.ID]; ok {
			known++
		}
	}
	return known > 0 && known == len(byID)
}
