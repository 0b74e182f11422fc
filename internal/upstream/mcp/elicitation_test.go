package mcp_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream/mcp"
)

// rounds returns a session with a server of the newest era. Its tool answers with the results one by
// one, and repeats the last. sent collects the parameters of its calls.
func rounds(t *testing.T, results ...string) (s *mcp.Session, sent *[]string) {
	sent = new([]string)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m struct {
			ID     json.RawMessage
			Method string
			Params struct {
				Responses json.RawMessage `json:"inputResponses"`
				State     json.RawMessage `json:"requestState"`
				Meta      struct {
					Can json.RawMessage `json:"io.modelcontextprotocol/clientCapabilities"`
				} `json:"_meta"`
			}
		}
		_ = json.NewDecoder(r.Body).Decode(&m) // requests are validated in other tests
		result := `{"resultType":"complete","supportedVersions":["2026-07-28"],"serverInfo":{"name":"n","version":"1"},"capabilities":{"tools":{}},"ttlMs":0,"cacheScope":"private"}`
		switch m.Method {
		case "tools/list":
			result = `{"tools":[]}`
		case "tools/call":
			result = results[min(len(*sent), len(results)-1)]
			*sent = append(*sent, fmt.Sprintf("%s %s %s", m.Params.Responses, m.Params.State, m.Params.Meta.Can))
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
	}))
	t.Cleanup(web.Close)
	s, err := mcp.OpenHTTP(t.Context(), mcp.Address{URL: web.URL}, mcp.Config{Client: "test", Version: "1"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s, sent
}

const (
	state   = `"a \"state\" \u00e9 of its own"`
	request = `{"resultType":"input_required","requestState":` + state +
		`,"inputRequests":{"name":{"method":"elicitation/create","params":{"mode":"form","message":"Who?","requestedSchema":{"type":"object","required":["n"],"properties":{"n":{"type":"string"},"d":{"type":"integer","default":7}}}}}}}`
	well = `{"resultType":"complete","content":[{"type":"text","text":"well"}]}`
)

func person(asked *int, r tool.Reply) func(context.Context, tool.Question) (tool.Reply, error) {
	return func(_ context.Context, q tool.Question) (tool.Reply, error) {
		*asked++
		return r, nil
	}
}

func TestInputRequiredIsAnsweredByAnotherCall(t *testing.T) {
	for name, c := range map[string]struct {
		results []string
		reply   tool.Reply
		sent    []string // in later rounds
		asked   int
	}{
		"a name": {[]string{request, well}, tool.Reply{Action: tool.Accept, Content: json.RawMessage(`{"n":"Ada"}`)},
			[]string{`{"name":{"action":"accept","content":{"d":7,"n":"Ada"}}} "a \"state\" é of its own"`}, 1},
		"declined": {[]string{request, well}, tool.Reply{Action: tool.Decline},
			[]string{`{"name":{"action":"decline"}} "a \"state\" é of its own"`}, 1},
		"dismissed": {[]string{request, well}, tool.Reply{Action: tool.Cancel},
			[]string{`{"name":{"action":"cancel"}} "a \"state\" é of its own"`}, 1},
		"no question, but a state": {[]string{`{"resultType":"input_required","requestState":"later"}`, well}, tool.Reply{},
			[]string{` "later"`}, 0},
		"twice, and no state": {[]string{request, strings.Replace(request, `"requestState":`+state+`,`, "", 1), well},
			tool.Reply{Action: tool.Cancel},
			[]string{`{"name":{"action":"cancel"}} "a \"state\" é of its own"`, `{"name":{"action":"cancel"}} `}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			s, sent := rounds(t, c.results...)
			asked := 0
			r, err := s.Call(t.Context(), tool.Call{Ref: tool.Ref{Tool: "x"}, Ask: person(&asked, c.reply)})
			if err != nil || r.Text() != "well" || asked != c.asked {
				t.Errorf("%q, %d questions, %v", r.Text(), asked, err)
			}
			want := []string{`  {"elicitation":{"form":{}}}`}
			for _, s := range c.sent {
				want = append(want, s+` {"elicitation":{"form":{}}}`)
			}
			if d := cmp.Diff(want, *sent); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestInputRequiredRoundsAreLimited(t *testing.T) {
	many := `{"resultType":"input_required","inputRequests":{`
	for i := range 100 {
		many += fmt.Sprintf(`"q%d":{"method":"elicitation/create","params":{"message":"?","requestedSchema":{"type":"object","properties":{"a":{"type":"string"}}}}},`, i)
	}
	for name, c := range map[string]struct {
		result string
		asked  int
	}{
		"questions":    {request, 16},
		"states":       {`{"resultType":"input_required","requestState":"later"}`, 0},
		"many at once": {strings.TrimSuffix(many, ",") + `}}`, 0},
	} {
		s, sent := rounds(t, c.result)
		asked := 0
		_, err := s.Call(t.Context(), tool.Call{Ref: tool.Ref{Tool: "x"}, Ask: person(&asked, tool.Reply{Action: tool.Decline})})
		if fault.KindOf(err) != fault.Exhausted || asked != c.asked || len(*sent) > 17 {
			t.Errorf("%s: %d calls, %d questions, %v", name, len(*sent), asked, err)
		}
	}
}

func TestUnsupportedInputRequestFailsCall(t *testing.T) {
	asked := 0
	all := person(&asked, tool.Reply{Action: tool.Accept})
	for name, c := range map[string]struct {
		result string
		person func(context.Context, tool.Question) (tool.Reply, error)
		want   error
	}{
		"nobody there": {request, nil, mcp.ErrInputRequired},
		"a sample":     {`{"resultType":"input_required","inputRequests":{"a":{"method":"sampling/createMessage","params":{"messages":[]}}}}`, all, mcp.ErrInputRequired},
		"rubbish":      {`{"resultType":"input_required","inputRequests":["a"]}`, all, mcp.ErrMalformed},
	} {
		s, sent := rounds(t, c.result)
		if _, err := s.Call(t.Context(), tool.Call{Ref: tool.Ref{Tool: "x"}, Ask: c.person}); !errors.Is(err, c.want) || len(*sent) != 1 ||
			asked > 0 {
			t.Errorf("%s: %v, %d calls", name, err, len(*sent))
		}
	}
}

func TestQuestionEndsWithCall(t *testing.T) {
	s, sent := rounds(t, request, well)
	ctx, leave := context.WithCancel(t.Context())
	_, err := s.Call(ctx, tool.Call{Ref: tool.Ref{Tool: "x"}, Ask: func(ctx context.Context, _ tool.Question) (tool.Reply, error) {
		leave()
		<-ctx.Done()
		return tool.Reply{}, ctx.Err()
	}})
	if !errors.Is(err, context.Canceled) || len(*sent) != 1 {
		t.Errorf("%v, %d calls", err, len(*sent))
	}
}
