package mcp_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream/mcp"
)

// message is what a peer received.
type message struct {
	ID     json.RawMessage            `json:"id"`
	Method string                     `json:"method"`
	Params map[string]json.RawMessage `json:"params"`
}

// peer returns a session with a server over streams. The server answers the handshake, and
// tools/list with an empty list; answer returns the end of any other answer, "" for none.
// received gets the other messages.
func peer(t *testing.T, handshake map[string]string, answer func(message) string) (s *mcp.Session, received chan message) {
	t.Helper()
	stdin, in := io.Pipe()
	out, stdout := io.Pipe()
	received = make(chan message, 100)
	served := make(chan struct{})
	go func() {
		defer close(served)
		defer stdout.Close()
		for lines := bufio.NewScanner(stdin); lines.Scan(); {
			var m message
			if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
				t.Errorf("%q: %v", lines.Text(), err)
			}
			end := handshake[m.Method]
			if m.Method == "tools/list" {
				end = `"result":{"tools":[]}`
			}
			if handshake[m.Method] == "" {
				received <- m
				if end == "" {
					end = answer(m)
				}
			}
			if end == "exit" {
				return
			}
			if end != "" && m.ID != nil {
				fmt.Fprintf(stdout, "{\"jsonrpc\":\"2.0\",\"id\":%s,%s}\n", m.ID, end)
			}
		}
	}()
	s, err := mcp.OpenStreams(t.Context(), out, in, mcp.Config{Client: "test", Version: "1.2"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close(); in.Close(); stdin.Close(); <-served })
	return s, received
}

var (
	newerEra = map[string]string{"server/discover": discovered}
	olderEra = map[string]string{"server/discover": unknown, "initialize": initialized}
)

// find returns the next message with the method.
func find(t *testing.T, received chan message, method string) message {
	t.Helper()
	for {
		select {
		case m := <-received:
			if m.Method == method {
				return m
			}
		case <-t.Context().Done():
			t.Fatalf("no %s", method)
		}
	}
}

// tools/call is encoded by this package and tools/list by the SDK.
func TestCallIsIdentifiedAsOtherRequests(t *testing.T) {
	for name, era := range map[string]map[string]string{"newer": newerEra, "older": olderEra} {
		t.Run(name, func(t *testing.T) {
			s, received := peer(t, era, func(message) string { return `"result":` + well })
			if _, _, err := s.Tools(t.Context(), "s"); err != nil {
				t.Fatal(err)
			}
			meta := func(m message) (fields map[string]any) {
				if m.Params["_meta"] != nil {
					if err := json.Unmarshal(m.Params["_meta"], &fields); err != nil {
						t.Fatal(err)
					}
				}
				return fields
			}
			want := meta(find(t, received, "tools/list"))
			call := tool.Call{Ref: tool.Ref{Tool: "send"}, Args: json.RawMessage(`{"b":1.50,"a":"<ü>\u2028"}`)}
			if _, err := s.Call(t.Context(), call); err != nil {
				t.Fatal(err)
			}
			m := find(t, received, "tools/call")
			if diff := cmp.Diff(want, meta(m)); diff != "" || (name == "newer") != (len(want) == 3) {
				t.Errorf("_meta differs: %s", diff)
			}
			if string(m.Params["arguments"]) != string(call.Args) || string(m.Params["name"]) != `"send"` {
				t.Errorf("the server received %s", m.Params)
			}
		})
	}
}

func TestCallWithoutArgumentsSendsObject(t *testing.T) {
	s, received := peer(t, olderEra, func(message) string { return `"result":` + well })
	if _, err := s.Call(t.Context(), tool.Call{Ref: tool.Ref{Tool: "send"}}); err != nil {
		t.Fatal(err)
	}
	if m := find(t, received, "tools/call"); string(m.Params["arguments"]) != "{}" {
		t.Errorf("the server received %s", m.Params)
	}
}

func TestCancelledCallIsReportedToServer(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	s, received := peer(t, olderEra, func(m message) string {
		if m.Method == "tools/call" {
			cancel()
		}
		return ""
	})
	if _, err := s.Call(ctx, tool.Call{Ref: tool.Ref{Tool: "hang"}}); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled call returned %v", err)
	}
	call := find(t, received, "tools/call")
	if m := find(t, received, "notifications/cancelled"); string(m.Params["requestId"]) != string(call.ID) || m.ID != nil {
		t.Errorf("the server received %s for the call %s", m.Params, call.ID)
	}
}

func TestCallEndsWithConnection(t *testing.T) {
	s, _ := peer(t, olderEra, func(m message) string {
		if m.Method == "tools/call" {
			return "exit"
		}
		return ""
	})
	if _, err := s.Call(t.Context(), tool.Call{Ref: tool.Ref{Tool: "hang"}}); !errors.Is(err, mcp.ErrClosed) {
		t.Errorf("a call on a connection that closed returned %v", err)
	}
	<-s.Done()
	if _, err := s.Call(t.Context(), tool.Call{Ref: tool.Ref{Tool: "hang"}}); !errors.Is(err, mcp.ErrClosed) {
		t.Errorf("a call on a closed connection returned %v", err)
	}
}
