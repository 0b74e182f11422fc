package upstream_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/logtest"
	"github.com/sandpiper-mcp/sandpiper/internal/longtest"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream/upstreamtest"
)

// newAskingSet returns a Set with one server, whose tool ask asks these questions.
func newAskingSet(t *testing.T, cfg upstream.Config, patience time.Duration, questions ...string) *upstream.Set {
	t.Helper()
	script := upstreamtest.Script{Answers: map[string]json.RawMessage{"call echo": json.RawMessage(`{"content":[{"type":"text","text":"echoed"}]}`)}}
	for _, q := range questions {
		script.Questions = append(script.Questions, json.RawMessage(q))
	}
	file := filepath.Join(t.TempDir(), "script")
	upstreamtest.Write(t, file, script)
	cfg.Servers = []upstream.Server{{Name: "s", Kind: upstream.Program{Command: upstreamtest.Command(t), Env: upstreamtest.Env(file)},
		Timeout: patience}}
	return open(t, cfg)
}

const (
	colour = `{"message":"Which\u001b[31m colour?","requestedSchema":{"type":"object","required":["colour","n"],"properties":{
		"colour":{"type":"string","enum":["red","blue"],"title":"Co\u202elour","$ref":"#"},"n":{"type":"integer","default":12345678901234567890}}}}`
	shownColour = `{"type":"object","properties":{"colour":{"type":"string","title":"Colour","enum":["red","blue"]},"n":{"type":"integer","default":12345678901234567890}},"required":["colour"]}`
)

func asking(name string, ask func(context.Context, tool.Question) (tool.Reply, error)) tool.Call {
	return tool.Call{Ref: tool.Ref{Server: "s", Tool: name}, Ask: ask}
}

func replies(action tool.Action, content string) func(context.Context, tool.Question) (tool.Reply, error) {
	return func(context.Context, tool.Question) (tool.Reply, error) {
		return tool.Reply{Action: action, Content: json.RawMessage(content)}, nil
	}
}

func TestElicitation(t *testing.T) {
	s := newAskingSet(t, upstream.Config{}, 0, colour)
	for name, c := range map[string]struct {
		reply func(context.Context, tool.Question) (tool.Reply, error)
		want  string
	}{
		"accepted": {replies(tool.Accept, `{"colour":"red"}`),
			`[{"action":"accept","content":{"colour":"red","n":12345678901234567890}}]`},
		"all of it": {replies(tool.Accept, `{"colour":"red","n":5}`), `[{"action":"accept","content":{"colour":"red","n":5}}]`},
		"declined":  {replies(tool.Decline, ``), `[{"action":"decline"}]`},
		"dismissed": {replies(tool.Cancel, ``), `[{"action":"cancel"}]`},
	} {
		var asked tool.Question
		r, err := s.Call(t.Context(), asking("ask", func(ctx context.Context, q tool.Question) (tool.Reply, error) {
			asked = q
			return c.reply(ctx, q)
		}))
		if d := cmp.Diff(c.want, r.Text()); err != nil || d != "" {
			t.Errorf("%s: %v %s", name, err, d)
		}
		if d := cmp.Diff(tool.Question{Text: "Which colour?", Schema: json.RawMessage(shownColour)}, asked); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
}

func TestUnansweredQuestionFailsCall(t *testing.T) {
	accept := replies(tool.Accept, `{}`)
	for name, c := range map[string]struct {
		question string
		ask      func(context.Context, tool.Question) (tool.Reply, error)
		says     string
	}{
		"nobody there": {colour, nil, "the caller of this tool cannot answer questions"},
		"a page": {`{"mode":"url","message":"open","url":"https://example.com","elicitationId":"1"}`, accept,
			"only elicitation mode form"},
		"a huge schema": {`{"message":"?","requestedSchema":{"type":"object","properties":{"a":{"type":"string","description":"` +
			strings.Repeat("x", 1<<20) + `"}}}}`, accept, "the limit is 16384"},
		"a deep schema": {`{"message":"?","requestedSchema":` + strings.Repeat(`{"type":"object","properties":{"a":`,
			2000) + `{}` + strings.Repeat(`}}`, 2000) + `}`, accept, "the limit is 16384"},
		"many fields": {`{"message":"?","requestedSchema":{"type":"object","properties":{` + fields(65) + `}}}`, accept,
			"65 fields; the limit is 64"},
		"no object": {`{"message":"?","requestedSchema":{"type":"string"}}`, accept, "its schema is not an object"},
		"no schema": {`{"message":"?"}`, accept, "its schema is not a form schema"},
		"a hidden choice": {`{"message":"?","requestedSchema":{"type":"object","properties":{"a":{"type":"string","enum":["yes\u202e"]}}}}`,
			accept, "cannot be displayed"},
		"a hidden name": {`{"message":"?","requestedSchema":{"type":"object","properties":{"a\u001b[1m":{"type":"string"}}}}`, accept,
			"cannot be displayed"},
		"an answer of no use": {colour, replies(tool.Accept, `5`), "the answer is not an object"},
		"who asks refuses": {colour, func(context.Context, tool.Question) (tool.Reply, error) {
			return tool.Reply{}, fault.New(fault.Invalid, "a person cannot fill that in")
		}, "a person cannot fill that in"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newAskingSet(t, upstream.Config{}, 0, c.question)
			_, err := s.Call(t.Context(), asking("ask", c.ask))
			failure, ok := err.(*tool.Failure)
			if !ok || !strings.Contains(failure.Message, c.says) || !strings.Contains(failure.Message, `[{"action":"decline"}]`) {
				t.Errorf("%v", err)
			}
		})
	}
}

func fields(n int) string {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprintf(`"f%d":{"type":"string"}`, i))
	}
	return strings.Join(all, ",")
}

func TestQuestionsPerCallAreLimited(t *testing.T) {
	s := newAskingSet(t, upstream.Config{}, 0, strings.Split(strings.Repeat(colour+"|", 20), "|")[:20]...)
	asked := 0
	_, err := s.Call(t.Context(), asking("ask", func(context.Context, tool.Question) (tool.Reply, error) {
		asked++
		return tool.Reply{Action: tool.Decline}, nil
	}))
	if failure, ok := err.(*tool.Failure); !ok || !strings.Contains(failure.Message, "more than 16 questions") || asked != 16 {
		t.Errorf("%d questions, %v", asked, err)
	}
}

// The protocol does not identify the call of a question, and concurrent calls may be of two tenants.
func TestAmbiguousQuestionIsDeclined(t *testing.T) {
	var output logtest.Log
	s := newAskingSet(t, upstream.Config{Log: slog.New(slog.NewTextHandler(&output, nil))}, 0, colour)
	never := func(context.Context, tool.Question) (tool.Reply, error) {
		t.Error("the question was asked")
		return tool.Reply{Action: tool.Decline}, nil
	}
	ctx, leave := context.WithCancel(t.Context())
	begun, ended := make(chan struct{}, 1), make(chan error, 1)
	waiting := asking("wait", never)
	waiting.Progress = func(float64, float64, string) { begun <- struct{}{} }
	go func() {
		_, err := s.Call(ctx, waiting)
		ended <- err
	}()
	<-begun
	r, err := s.Call(t.Context(), asking("ask", never))
	if err != nil || r.Text() != `[{"action":"decline"}]` {
		t.Errorf("during another call: %q %v", r.Text(), err)
	}
	leave()
	<-ended
	until(t, "the server to receive the cancellation", func() bool { // until then it may decline
		r, err = s.Call(t.Context(), asking("ask", replies(tool.Cancel, "")))
		return err != nil || r.Text() == `[{"action":"cancel"}]`
	})
	if err != nil {
		t.Error(err)
	}
	if !strings.Contains(output.String(), "2 requests were in flight") {
		t.Error(output.String())
	}
}

func TestQuestionOfAbandonedCallIsDeclined(t *testing.T) {
	s := newAskingSet(t, upstream.Config{}, 0, colour)
	ctx, leave := context.WithCancel(t.Context())
	var gone error
	_, err := s.Call(ctx, asking("ask", func(ctx context.Context, _ tool.Question) (tool.Reply, error) {
		leave()
		<-ctx.Done()
		gone = context.Cause(ctx)
		time.Sleep(500 * time.Millisecond) // the call ends before its question is answered
		return tool.Reply{}, gone
	}))
	if gone == nil {
		t.Error("the question was not cancelled with its call")
	}
	wantError(t, err, fault.Unavailable, "was cancelled while calling ask")
	until(t, "the answer of the abandoned call", func() bool {
		r, err := s.Call(t.Context(), asking("ask", replies(tool.Cancel, "")))
		return err == nil && r.Text() == `[{"action":"cancel"}]`
	})
}

func TestTimeoutStopsDuringQuestion(t *testing.T) {
	longtest.SkipSlow(t)
	t.Parallel()
	s := newAskingSet(t, upstream.Config{}, 5*time.Second, colour)
	r, err := s.Call(t.Context(), asking("ask", func(ctx context.Context, _ tool.Question) (tool.Reply, error) {
		select {
		case <-ctx.Done():
		case <-time.After(6 * time.Second):
		}
		return tool.Reply{Action: tool.Cancel}, context.Cause(ctx)
	}))
	if err != nil || r.Text() != `[{"action":"cancel"}]` {
		t.Errorf("%q %v", r.Text(), err)
	}
	_, err = s.Call(t.Context(), asking("wait", nil))
	wantError(t, err, fault.Exhausted, "did not respond within 5s")
}
