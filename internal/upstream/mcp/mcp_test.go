package mcp_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream/mcp"
)

type decodeString struct {
	X string `json:"x"`
}

// server returns an SDK server with an echo tool, a slow tool and a tool that adds a tool. Blocked
// handlers return when over is closed: in the newest era the SDK does not notify a handler of a
// disconnected client.
func server(over <-chan struct{}) *sdk.Server {
	s := sdk.NewServer(&sdk.Implementation{Name: "sdk", Title: "The SDK", Version: "1"}, &sdk.ServerOptions{Instructions: "be kind"})
	sdk.AddTool(s, &sdk.Tool{Name: "echo"}, func(_ context.Context, _ *sdk.CallToolRequest, in decodeString) (*sdk.CallToolResult,
		decodeString, error) {
		return nil, in, nil
	})
	sdk.AddTool(s, &sdk.Tool{Name: "work"}, func(ctx context.Context, r *sdk.CallToolRequest, in decodeString) (*sdk.CallToolResult, any,
		error) {
		err := r.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{ProgressToken: r.Params.GetProgressToken(), Progress: 1,
			Total: 2, Message: "half"})
		return nil, nil, err
	})
	sdk.AddTool(s, &sdk.Tool{Name: "hang"}, func(ctx context.Context, _ *sdk.CallToolRequest, in decodeString) (*sdk.CallToolResult, any,
		error) {
		select {
		case <-ctx.Done():
		case <-over:
		}
		return nil, nil, ctx.Err()
	})
	sdk.AddTool(s, &sdk.Tool{Name: "grow"}, func(context.Context, *sdk.CallToolRequest, decodeString) (*sdk.CallToolResult, any, error) {
		sdk.AddTool(s, &sdk.Tool{Name: "more"}, func(context.Context, *sdk.CallToolRequest, decodeString) (*sdk.CallToolResult, any,
			error) {
			return nil, nil, nil
		})
		return nil, nil, nil
	})
	s.AddPrompt(&sdk.Prompt{Name: "greet", Arguments: []*sdk.PromptArgument{{Name: "whom", Required: true}}},
		func(_ context.Context, r *sdk.GetPromptRequest) (*sdk.GetPromptResult, error) {
			return &sdk.GetPromptResult{Messages: []*sdk.PromptMessage{{Role: "user",
				Content: &sdk.TextContent{Text: "greet " + r.Params.Arguments["whom"]}}}}, nil
		})
	s.AddResource(&sdk.Resource{URI: "memo://a", Name: "a"},
		func(context.Context, *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
			return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{{URI: "memo://a", Text: "remember"}}}, nil
		})
	s.AddResourceTemplate(&sdk.ResourceTemplate{URITemplate: "memo://{name}", Name: "any"},
		func(context.Context, *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
			return nil, sdk.ResourceNotFoundError("memo")
		})
	return s
}

// TestSessionsWithSDKServers tests every transport in both eras.
func TestSessionsWithSDKServers(t *testing.T) {
	for name, c := range map[string]struct {
		handler  func(*sdk.Server) http.Handler
		events   bool
		old      bool
		protocol string
	}{
		"2026-07-28": {func(s *sdk.Server) http.Handler {
			return sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, &sdk.StreamableHTTPOptions{Stateless: true})
		}, false, false, "2026-07-28"},
		"2025-11-25": {func(s *sdk.Server) http.Handler {
			return sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, nil)
		}, false, true, "2025-11-25"},
		"events": {func(s *sdk.Server) http.Handler {
			return sdk.NewSSEHandler(func(*http.Request) *sdk.Server { return s }, nil)
		}, true, false, "2025-11-25"},
	} {
		t.Run(name, func(t *testing.T) {
			over := make(chan struct{})
			web := httptest.NewServer(c.handler(server(over)))
			defer web.Close()
			defer close(over)
			changed := make(chan struct{}, 10)
			s, err := mcp.OpenHTTP(t.Context(), mcp.Address{URL: web.URL, Events: c.events},
				mcp.Config{Client: "test", Version: "1", InitializeFirst: c.old, ToolsChanged: func() { changed <- struct{}{} }})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			if i := s.Info(); i.Protocol != c.protocol || i.Name != "sdk" || i.Title != "The SDK" || i.Instructions != "be kind" ||
				!i.Resources || !i.Prompts {
				t.Errorf("%+v", i)
			}
			use(t, s)
			if _, err := s.Call(t.Context(), tool.Call{Ref: tool.Ref{Tool: "grow"}, Args: json.RawMessage(`{"x":""}`)}); err != nil {
				t.Error(err)
			}
			select {
			case <-changed:
			case <-time.After(10 * time.Second):
				t.Fatal("no notification of the change")
			}
			if tools, _, err := s.Tools(t.Context(), "s"); err != nil || len(tools) != 5 {
				t.Errorf("%d tools after the change, %v", len(tools), err)
			}
		})
	}
}

func use(t *testing.T, s *mcp.Session) {
	tools, notes, err := s.Tools(t.Context(), "s")
	if err != nil || len(tools) != 4 || len(notes) > 0 {
		t.Errorf("%d tools, %q, %v", len(tools), notes, err)
	}
	r, err := s.Call(t.Context(), tool.Call{Ref: tool.Ref{Tool: "echo"}, Args: json.RawMessage(`{"x":"<ü>"}`)})
	if v, ok := r.Value(); err != nil || !ok || string(v) != `{"x":"\u003cü\u003e"}` && string(v) != `{"x":"<ü>"}` {
		t.Errorf("%s %v", v, err)
	}
	received := ""
	if _, err := s.Call(t.Context(), tool.Call{Ref: tool.Ref{Tool: "work"}, Args: json.RawMessage(`{"x":""}`),
		Progress: func(_, _ float64, message string) { received = message }}); err != nil || received != "half" {
		t.Errorf("received %q, %v", received, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := s.Call(ctx, tool.Call{Ref: tool.Ref{Tool: "hang"}, Args: json.RawMessage(`{"x":""}`)}); err != context.DeadlineExceeded {
		t.Error(err)
	}
	if _, err := s.Call(t.Context(), tool.Call{Ref: tool.Ref{Tool: "echo"}, Args: json.RawMessage(`{"x":1}`)}); err == nil {
		t.Error("a number was accepted as text")
	}
	resources, skipped, err := s.Resources(t.Context())
	if err != nil || skipped != 0 || len(resources) != 2 || resources[0].URI != "memo://a" || !resources[1].Template {
		t.Errorf("%+v %v", resources, err)
	}
	if parts, err := s.ReadResource(t.Context(), "memo://a"); err != nil || len(parts) != 1 || parts[0].Text != "remember" {
		t.Errorf("%+v %v", parts, err)
	}
	prompts, skipped, err := s.Prompts(t.Context())
	if err != nil || skipped != 0 || len(prompts) != 1 || !prompts[0].Arguments[0].Required {
		t.Errorf("%+v %v", prompts, err)
	}
	if messages, err := s.GetPrompt(t.Context(), "greet", map[string]string{"whom": "Ada"}); err != nil ||
		messages[0].Part.Text != "greet Ada" {
		t.Errorf("%+v %v", messages, err)
	}
}

// BenchmarkCalls makes 1,000 concurrent calls to a program, through a Set and through a client of the
// SDK.
func BenchmarkCalls(b *testing.B) {
	program := filepath.Join(b.TempDir(), "calculator")
	if out, err := exec.Command("go", "build", "-o", program, "../../../examples/servers/calculator").CombinedOutput(); err != nil {
		b.Fatalf("%v\n%s", err, out)
	}
	b.Run("set", func(b *testing.B) {
		s, err := upstream.New(upstream.Config{Servers: []upstream.Server{{Name: "c", Kind: upstream.Program{Command: program},
			Concurrency: 1000}}})
		if err != nil {
			b.Fatal(err)
		}
		defer s.Close()
		inParallel(b, func() error {
			_, err := s.Call(b.Context(), tool.Call{Ref: tool.Ref{Server: "c", Tool: "add"}, Args: json.RawMessage(`{"a":1,"b":2}`)})
			return err
		})
	})
	b.Run("sdk", func(b *testing.B) {
		c, err := sdk.NewClient(&sdk.Implementation{Name: "b"}, nil).
			Connect(b.Context(), &sdk.CommandTransport{Command: exec.Command(program)}, nil)
		if err != nil {
			b.Fatal(err)
		}
		defer c.Close()
		inParallel(b, func() error {
			_, err := c.CallTool(b.Context(), &sdk.CallToolParams{Name: "add", Arguments: json.RawMessage(`{"a":1,"b":2}`)})
			return err
		})
	})
}

func inParallel(b *testing.B, call func() error) {
	if err := call(); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		var all sync.WaitGroup
		for range 1000 {
			all.Go(func() {
				if err := call(); err != nil {
					b.Error(err)
				}
			})
		}
		all.Wait()
	}
}
