package upstream_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream"
)

// callForLarge calls a tool and returns the content that was stored.
func callForLarge(t testing.TB, s *upstream.Set, server, name, x string) (stored []byte, res tool.Result, err error) {
	args, _ := json.Marshal(map[string]string{"x": x})
	res, err = s.Call(t.Context(), tool.Call{Ref: tool.Ref{Server: server, Tool: name}, Args: args,
		Store: func(_ context.Context, content []byte) (json.RawMessage, error) {
			stored = bytes.Clone(content)
			return json.RawMessage(`{"path":"/there"}`), nil
		}})
	return stored, res, err
}

func TestLargeAnswersOfPrograms(t *testing.T) {
	dir := t.TempDir()
	s := open(t, upstream.Config{MaxResponse: 4 << 20, Spool: dir, SpoolBytes: 250e6,
		Servers: []upstream.Server{brokenServer(t, "good"), brokenServer(t, "writes ids last")}})
	for _, server := range []string{"good", "writes ids last", "good"} { // 100 MB each, twice on disk
		got, res, err := callForLarge(t, s, server, "huge", "")
		if err != nil || len(got) != 100e6 || string(got[:20]) != "01234567890123456789" || string(res.File) != `{"path":"/there"}` ||
			res.Parts != nil {
			t.Errorf("%s: %d bytes, %+v, %v", server, len(got), res, err)
		}
		wantEcho(t, s, server)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("files left: %v, %v", left, err)
	}
	_, err := call(t.Context(), s, "good", "huge", "")
	wantError(t, err, fault.Exhausted, `sent a response of more than 4194304 bytes`)
	_, err = s.Call(t.Context(), tool.Call{Ref: tool.Ref{Server: "good", Tool: "huge"},
		Store: func(context.Context, []byte) (json.RawMessage, error) {
			return nil, fault.New(fault.Exhausted, "sent too much for the workspace")
		}})
	wantError(t, err, fault.Exhausted, `server "good" sent too much for the workspace`)
	wantEcho(t, s, "good")
}

func TestLargeAnswersHaveALimit(t *testing.T) {
	s := open(t, upstream.Config{MaxResponse: 1 << 20, Spool: t.TempDir(), SpoolBytes: 50e6,
		Servers: []upstream.Server{brokenServer(t, "good")}})
	for range 2 {
		_, _, err := callForLarge(t, s, "good", "huge", "")
		wantError(t, err, fault.Exhausted, `sent a response of more than 1048576 bytes`)
		wantEcho(t, s, "good")
	}
}

func TestLargeAnswersOverHTTP(t *testing.T) {
	rows := `{"rows":["` + strings.Repeat("0123456789", 300_000) + `"]}`
	text, _ := json.Marshal(strings.Repeat("a\"é\n", 500_000))
	results := map[string]struct{ result, stored string }{
		"structured": {`{"content":[{"type":"text","text":"rows"}],"structuredContent":` + rows + `}`, rows},
		"wrapped": {`{"content":[],"structuredContent":{"result":[` + rows + `]},"_meta":{"fastmcp":{"wrap_result":true}}}`,
			"[" + rows + "]"},
		"text":        {`{"content":[{"text":` + string(text) + `,"type":"text"}]}`, strings.Repeat("a\"é\n", 500_000)},
		"not failed":  {`{"content":[],"structuredContent":` + rows + `,"isError":null}`, rows},
		"failed":      {`{"content":[{"type":"text","text":` + string(text) + `}],"isError":true}`, ""},
		"two":         {`{"content":[{"type":"text","text":` + string(text) + `},{"type":"text","text":"b"}]}`, ""},
		"not JSON":    {`{"content":[` + rows, ""},
		"not UTF-8":   {`{"content":[{"type":"text","text":"` + strings.Repeat("\xff", 2<<20) + `"}]}`, ""},
		"credentials": {`{"content":[],"structuredContent":["` + strings.Repeat("sesame-open", 200_000) + `"]}`, ""},
	}
	web := serve(t, func(w http.ResponseWriter, _ *http.Request, m request) bool {
		if m.Method != "tools/call" {
			return false
		}
		name, streamed := strings.CutSuffix(fmt.Sprint(m.Params.Arguments["x"]), ", streamed")
		c, large := results[name]
		switch {
		case !large:
			return false
		case streamed:
			stream(w, fmt.Sprintf("data: {\"jsonrpc\":\"2.0\",\"id\":%s,\ndata: \"result\":%s}\n\n", m.ID, c.result))
		default:
			reply(w, m, c.result)
		}
		return true
	})
	s := open(t, upstream.Config{MaxResponse: 1 << 20, Spool: t.TempDir(), SpoolBytes: 10 << 20,
		Servers: []upstream.Server{{Name: "site", Kind: upstream.Remote{URL: web.URL + "/mcp",
			Headers: map[string]string{"Authorization": "Bearer sesame-open"}}}}})
	for name, c := range results {
		for _, how := range []string{"", ", streamed"} {
			got, res, err := callForLarge(t, s, "site", "echo", name+how)
			if string(got) != c.stored || (c.stored == "") != (err != nil) || err == nil && res.File == nil {
				t.Errorf("%s%s: %d bytes stored, want %d; %+v, %v", name, how, len(got), len(c.stored), res, err)
			}
			if failure, own := errors.AsType[*tool.Failure](err); own != (name == "failed") || own && !strings.Contains(failure.Message,
				"failed with an answer of 3") {
				t.Errorf("%s%s: %v", name, how, err)
			}
			wantEcho(t, s, "site")
		}
	}
}

// A connection over HTTP is shared. A response belongs to its request, whatever its id.
func TestLargeAnswerWithWrongIDFailsOnlyItsCall(t *testing.T) {
	waits, answer := make(chan bool), make(chan bool)
	web := serve(t, func(w http.ResponseWriter, _ *http.Request, m request) bool {
		x, _ := m.Params.Arguments["x"].(string)
		wrong := `{"jsonrpc":"2.0","id":999999,"result":"` + strings.Repeat("x", 2<<20) + `"}`
		switch x {
		case "waits":
			close(waits)
			<-answer
			return false
		case "plain":
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, wrong)
		case "streamed":
			stream(w, "data: "+wrong+"\n\n")
		default:
			return false
		}
		return true
	})
	s := open(t, upstream.Config{MaxResponse: 1 << 20, Spool: t.TempDir(),
		Servers: []upstream.Server{{Name: "site", Kind: upstream.Remote{URL: web.URL + "/mcp"}}}})
	wantEcho(t, s, "site")
	other := make(chan error)
	go func() {
		_, err := call(t.Context(), s, "site", "echo", "waits")
		other <- err
	}()
	<-waits
	for _, how := range []string{"plain", "streamed"} {
		_, _, err := callForLarge(t, s, "site", "echo", how)
		wantError(t, err, fault.Exhausted, "sent a response of more than 1048576 bytes")
	}
	close(answer)
	if err := <-other; err != nil {
		t.Errorf("the call in flight: %v", err)
	}
}

func TestLargeAnswerAfterDeclinedQuestionIsRefused(t *testing.T) {
	declined := make(chan bool)
	web := serve(t, func(w http.ResponseWriter, _ *http.Request, m request) bool {
		switch {
		case m.Method == "" && string(m.ID) == `"q"`:
			close(declined)
			return false
		case m.Method != "tools/call" || m.Params.Arguments["x"] != "asks":
			return false
		}
		stream(w, `data: {"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"message":"who?","requestedSchema":{"type":"object"}}}`+"\n\n")
		<-declined
		stream(w, fmt.Sprintf("data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"content\":[],\"structuredContent\":{\"x\":\"%s\"}}}\n\n",
			m.ID, strings.Repeat("x", 2<<20)))
		return true
	})
	s := open(t, upstream.Config{MaxResponse: 1 << 20, Spool: t.TempDir(), Servers: []upstream.Server{{Name: "site", Kind: upstream.Remote{URL: web.URL + "/mcp"}}}})
	wantEcho(t, s, "site")
	stored, res, err := callForLarge(t, s, "site", "echo", "asks")
	if failure, own := errors.AsType[*tool.Failure](err); !own || !strings.Contains(failure.Message,
		"a question of the server was declined") || stored != nil {
		t.Errorf("%d bytes stored, %+v, %v", len(stored), res, err)
	}
}

// The wait for memory begins when the server has answered, and is none of its time.
func TestWaitForMemoryDoesNotCountAsTimeOfTheServer(t *testing.T) {
	const limit = time.Second
	web := serve(t, nil)
	s := newAPISet(t, upstream.Config{Servers: []upstream.Server{{Name: "site", Kind: upstream.Remote{URL: web.URL + "/mcp"},
		Timeout: limit}}}, upstream.Server{Timeout: limit}, func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, strings.Repeat("x", 1<<20))
	})
	for server, name := range map[string]string{"site": "echo", "pets": "get"} {
		t.Run(server, func(t *testing.T) {
			t.Parallel()
			waited := false
			_, err := s.Call(t.Context(), tool.Call{Ref: tool.Ref{Server: server, Tool: name},
				Hold: func(ctx context.Context, _ int64) error {
					waited = true
					select {
					case <-ctx.Done():
						return context.Cause(ctx)
					case <-time.After(limit * 3 / 2): // as long as others hold the memory
						return nil
					}
				}})
			if err != nil || !waited {
				t.Errorf("waited is %v: %v", waited, err)
			}
		})
	}
}
