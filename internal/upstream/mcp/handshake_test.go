package mcp_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sandpiper-mcp/sandpiper/internal/longtest"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream/mcp"
)

// slowServer reads nothing before its start time has passed. It ignores methods without an entry in
// answers, and exits at the answer "exit".
type slowServer struct {
	start   time.Duration
	answers map[string]string
	late    bool // it answers server/discover after the next request

	read []string // methods
}

const (
	discovered  = `"result":{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"resultType":"complete","ttlMs":0,"cacheScope":"private"}`
	initialized = `"result":{"protocolVersion":"2025-06-18","capabilities":{},"serverInfo":{"name":"s","version":"1"}}`
	newerOnly   = `"error":{"code":-32022,"message":"unsupported protocol ` +
		`version","data":{"supported":["2026-07-28"],"requested":"2025-11-25"}}`
	olderOnly = `"error":{"code":-32022,"message":"unsupported protocol ` +
		`version","data":{"supported":["2025-06-18"],"requested":"2025-11-25"}}`
	unknown   = `"error":{"code":-32601,"message":"unknown method"}`
	duplicate = `"error":{"code":0,"message":"duplicate \"initialize\" received"}`
	noKey     = `"error":{"code":-32000,"message":"API_KEY is not set"}`
)

func (s *slowServer) serve(in io.Reader, out io.WriteCloser) {
	defer out.Close()
	time.Sleep(s.start) // fake time
	delayed := ""
	for lines := bufio.NewScanner(in); lines.Scan(); {
		var r struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
			Params struct {
				Version string `json:"protocolVersion"`
			} `json:"params"`
		}
		if json.Unmarshal(lines.Bytes(), &r) != nil {
			return
		}
		s.read = append(s.read, r.Method)
		answer, ok := s.answers[r.Method+" "+r.Params.Version]
		if !ok {
			answer = s.answers[r.Method]
		}
		if answer == "exit" {
			return
		}
		line := ""
		if answer != "" {
			line = fmt.Sprintf("{\"jsonrpc\":\"2.0\",\"id\":%s,%s}\n", r.ID, answer)
		}
		if s.late && r.Method == "server/discover" {
			delayed = line
			continue
		}
		io.WriteString(out, line+delayed)
		delayed = ""
	}
}

// connect opens a session with s and returns the result.
func (s *slowServer) connect(t *testing.T, old bool) (info mcp.Info, took time.Duration, err error) {
	synctest.Test(t, func(t *testing.T) {
		stdin, in := io.Pipe()
		out, stdout := io.Pipe()
		served := make(chan struct{})
		go func() {
			defer close(served)
			s.serve(stdin, stdout)
			stdin.Close()
		}()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		var session *mcp.Session
		session, err = mcp.OpenStreams(ctx, out, in, mcp.Config{Client: "test", Version: "1", InitializeFirst: old})
		took = time.Since(began)
		if err == nil {
			info = session.Info()
			synctest.Wait() // until the server has read all sent messages
			session.Close()
		}
		in.Close()
		<-served
		synctest.Wait()
	})
	return info, took, err
}

func TestHandshakeOverStreams(t *testing.T) {
	for name, c := range map[string]struct {
		server   slowServer
		old      bool
		protocol string
		legacy   bool
		took     time.Duration
		read     []string
	}{
		"a newer server that needs 20 s": {
			server: slowServer{start: 20 * time.Second, answers: map[string]string{"server/discover": discovered,
				"initialize": newerOnly}},
			protocol: "2026-07-28", took: 20 * time.Second, read: []string{"server/discover", "initialize"},
		},
		"a server of both eras that needs 20 s": {
			server: slowServer{start: 20 * time.Second, answers: map[string]string{"server/discover": discovered,
				"initialize": initialized}},
			protocol: "2026-07-28", took: 20 * time.Second, read: []string{"server/discover", "initialize"},
		},
		"a server that takes initialize as the second and answers it first": {
			server: slowServer{start: 20 * time.Second, answers: map[string]string{"server/discover": discovered,
				"initialize": duplicate}, late: true},
			protocol: "2026-07-28", took: 20 * time.Second, read: []string{"server/discover", "initialize"},
		},
		"an older server that needs 20 s": {
			server: slowServer{start: 20 * time.Second, answers: map[string]string{"server/discover": unknown,
				"initialize": initialized}},
			protocol: "2025-06-18", took: 20 * time.Second, read: []string{"server/discover", "initialize", "notifications/initialized"},
		},
		"an older server that answers at once": {
			server:   slowServer{answers: map[string]string{"server/discover": unknown, "initialize": initialized}},
			protocol: "2025-06-18", read: []string{"server/discover", "initialize", "notifications/initialized"},
		},
		"an older server that ignores what it does not know": {
			server:   slowServer{answers: map[string]string{"initialize": initialized}},
			protocol: "2025-06-18", legacy: true, took: 5 * time.Second, read: []string{"server/discover", "initialize",
				"notifications/initialized"},
		},
		"the same, remembered": {
			server: slowServer{answers: map[string]string{"initialize": initialized}}, old: true,
			protocol: "2025-06-18", legacy: true, read: []string{"initialize", "notifications/initialized"},
		},
		"remembered, and newer since": {
			server:   slowServer{start: 20 * time.Second, answers: map[string]string{"server/discover": discovered, "initialize": newerOnly}},
			old:      true,
			protocol: "2026-07-28", took: 20 * time.Second, read: []string{"initialize", "server/discover"},
		},
		"remembered, and without initialize since": {
			server: slowServer{answers: map[string]string{"server/discover": discovered, "initialize": unknown}}, old: true,
			protocol: "2026-07-28", read: []string{"initialize", "server/discover"},
		},
		"a server that names another version of the older era": {
			server: slowServer{start: 6 * time.Second, answers: map[string]string{"server/discover": olderOnly, "initialize": olderOnly,
				"initialize 2025-06-18": initialized}},
			protocol: "2025-06-18", took: 6 * time.Second, read: []string{"server/discover", "initialize", "initialize",
				"notifications/initialized"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			info, took, err := c.server.connect(t, c.old)
			if err != nil || info.Protocol != c.protocol || info.Legacy != c.legacy || took != c.took {
				t.Errorf("protocol %q, legacy %v, after %v: %v", info.Protocol, info.Legacy, took, err)
			}
			if !slices.Equal(c.server.read, c.read) {
				t.Errorf("the server read %q, want %q", c.server.read, c.read)
			}
		})
	}
}

// flood is a server that answers each call with a line of 1 GB.
func flood(in io.Reader, out io.WriteCloser) {
	defer out.Close()
	piece := bytes.Repeat([]byte("0123456789abcdef"), 1<<12)
	for lines := bufio.NewScanner(in); lines.Scan(); {
		var r struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
		}
		switch _ = json.Unmarshal(lines.Bytes(), &r); r.Method {
		case "server/discover":
			fmt.Fprintf(out, "{\"jsonrpc\":\"2.0\",\"id\":%s,%s}\n", r.ID, unknown)
		case "initialize":
			fmt.Fprintf(out, "{\"jsonrpc\":\"2.0\",\"id\":%s,%s}\n", r.ID, initialized)
		case "tools/call":
			fmt.Fprintf(out, `{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"`, r.ID)
			for range 1 << 14 {
				_, _ = out.Write(piece)
			}
			fmt.Fprintln(out, `"}]}}`)
		}
	}
}

// TestMemoryOfLargeAnswerIsReleased measures the resident memory of the process.
func TestMemoryOfLargeAnswerIsReleased(t *testing.T) {
	inUse := func() uint64 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return (m.HeapSys - m.HeapReleased) >> 20
	}
	debug.FreeOSMemory()
	before := inUse()
	stdin, in := io.Pipe()
	out, stdout := io.Pipe()
	served := make(chan struct{})
	go func() {
		defer close(served)
		flood(stdin, stdout)
	}()
	s, err := mcp.OpenStreams(t.Context(), out, in, mcp.Config{Client: "test", Version: "1"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { s.Close(); in.Close(); <-served }()
	if _, err := s.Call(t.Context(), tool.Call{Ref: tool.Ref{Tool: "x"}}); !errors.Is(err, mcp.ErrTooLarge) {
		t.Fatal(err)
	}
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.After(30 * time.Second); inUse() > before+16; {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("the process uses %d MiB, before %d", inUse(), before)
		}
	}
}

func TestHandshakeOverStreamsFails(t *testing.T) {
	for name, c := range map[string]struct {
		server slowServer
		took   time.Duration
		check  func(error) bool
	}{
		"a server that answers nothing": {
			server: slowServer{}, took: time.Minute,
			check: func(err error) bool { return errors.Is(err, context.DeadlineExceeded) },
		},
		"a server that refuses to initialize": {
			server: slowServer{start: 7 * time.Second, answers: map[string]string{"initialize": noKey}}, took: 12 * time.Second,
			check: func(err error) bool { r, ok := errors.AsType[*mcp.ServerError](err); return ok && r.Code == -32000 },
		},
		"a server that speaks no version that we know": {
			server: slowServer{start: 7 * time.Second, answers: map[string]string{"server/discover": newerOnly, "initialize": newerOnly}},
			took:   7 * time.Second,
			check:  func(err error) bool { r, ok := errors.AsType[*mcp.ServerError](err); return ok && r.Code == -32022 },
		},
		"a server that exits on server/discover": {
			server: slowServer{start: 7 * time.Second, answers: map[string]string{"server/discover": "exit"}}, took: 7 * time.Second,
			check: func(err error) bool { return errors.Is(err, mcp.ErrClosedEarly) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			if _, took, err := c.server.connect(t, false); !c.check(err) || took != c.took {
				t.Errorf("after %v: %v", took, err)
			}
		})
	}
}

// TestSlowStartOverHTTP uses a server of the newer era that answers only after the timeout of
// server/discover.
func TestSlowStartOverHTTP(t *testing.T) {
	longtest.SkipSlow(t)
	s := sdk.NewServer(&sdk.Implementation{Name: "slow", Version: "1"}, nil)
	newer := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, &sdk.StreamableHTTPOptions{Stateless: true})
	var mu sync.Mutex
	asked := 0
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		asked++
		first := asked == 1
		mu.Unlock()
		body, _ := io.ReadAll(r.Body)
		if first { // server/discover, before it has started
			<-r.Context().Done()
			return
		}
		var m struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
		}
		if json.Unmarshal(body, &m) == nil && m.Method == "initialize" {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,%s}`, m.ID, newerOnly)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		newer.ServeHTTP(w, r)
	}))
	defer web.Close()
	session, err := mcp.OpenHTTP(t.Context(), mcp.Address{URL: web.URL}, mcp.Config{Client: "test", Version: "1"})
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	if i := session.Info(); i.Protocol != "2026-07-28" || i.Legacy {
		t.Errorf("%+v", i)
	}
}
