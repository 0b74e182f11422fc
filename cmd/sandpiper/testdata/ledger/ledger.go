// Package ledger is a server for tests, in MCP and HTTP, that records the effect of each call and ends
// the call as its arguments ask for.
package ledger

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// effect contains the arguments of the tools of the ledger. At, By and Seen only make calls differ.
type effect struct {
	N    int     `json:"n,omitempty"`
	How  string  `json:"how,omitempty"` // how the call ends
	At   float64 `json:"at,omitempty"`
	By   float64 `json:"by,omitempty"`
	Seen int     `json:"seen,omitempty"`
}

// Main is an MCP server that records the effect of each call in the file of its first argument, on
// disk before it answers, so that tests can count the calls, and ends a call as its argument asks for.
// With a second argument it listens on a port of loopback, and prints the URL: see serveHTTP.
func Main() {
	if len(os.Args) > 2 {
		serveHTTP()
		return
	}
	read, write := io.Pipe()
	go endBadlyOnStdio(write)
	_ = newServer().Run(context.Background(), &mcp.IOTransport{Reader: read, Writer: os.Stdout})
}

// newServer has tools that write (add and pay), may be repeated (set) and read (look, ping), and a
// resource and a prompt that end badly too. Ping and a call of look that ends well are not recorded.
func newServer() *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "ledger", Version: "1"}, nil)
	for name, hints := range map[string]mcp.ToolAnnotations{"add": {}, "pay": {}, "set": {IdempotentHint: true}, "look": {ReadOnlyHint: true}, "ping": {ReadOnlyHint: true}, "wait": {}} {
		mcp.AddTool(s, &mcp.Tool{Name: name, Annotations: &hints}, func(_ context.Context, _ *mcp.CallToolRequest, e effect) (*mcp.CallToolResult, any, error) {
			switch {
			case name == "wait":
				select {} // it never answers
			case name == "add":
				time.Sleep(rand.N(4 * time.Millisecond)) // so that the daemon is killed before and after
				defer func() { time.Sleep(rand.N(4 * time.Millisecond)) }()
			}
			if name != "ping" && (name != "look" || e.How != "") {
				if err := happen(e); err != nil {
					return nil, nil, err
				}
			}
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: strconv.Itoa(e.N)}}}, nil, nil
		})
	}
	s.AddResourceTemplate(&mcp.ResourceTemplate{URITemplate: "end://{how}/{n}", Name: "end"}, func(_ context.Context, r *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: r.Params.URI, Text: "ok"}}}, happen(parseEnd(r.Params.URI))
	})
	s.AddPrompt(&mcp.Prompt{Name: "end", Arguments: []*mcp.PromptArgument{{Name: "uri"}}}, func(_ context.Context, r *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{{Role: "user", Content: &mcp.TextContent{Text: "ok"}}}}, happen(parseEnd(r.Params.Arguments["uri"]))
	})
	return s
}

// parseEnd returns the effect of end://HOW/N.
func parseEnd(uri string) (e effect) {
	if u, err := url.Parse(uri); err == nil {
		e.How = u.Host
		e.N, _ = strconv.Atoi(strings.TrimPrefix(u.Path, "/"))
	}
	return e
}

// happen records the effect, and ends the call.
func happen(e effect) error {
	before := Entries(os.Args[1])[e.N]
	enter(e.N)
	switch e.How {
	case "hang":
		select {}
	case "hang_once":
		if before == 0 {
			select {}
		}
	case "die":
		if p, err := os.FindProcess(os.Getpid()); err == nil {
			_ = p.Kill()
		}
		select {}
	case "internal":
		return &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "lost the database"}
	case "params":
		return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "no such account"}
	case "fail":
		return errors.New("sold out")
	}
	return nil
}

// request is a request that may end badly.
type request struct {
	ID     json.RawMessage
	Method string
	Params struct {
		URI       string
		Arguments json.RawMessage
	}
}

// effect returns the arguments of a request.
func (r request) effect() (e effect) {
	switch r.Method {
	case "tools/call":
		_ = json.Unmarshal(r.Params.Arguments, &e)
	case "resources/read":
		return parseEnd(r.Params.URI)
	case "prompts/get":
		var args struct{ URI string }
		_ = json.Unmarshal(r.Params.Arguments, &args)
		return parseEnd(args.URI)
	}
	return e
}

// malformed returns the message that answers a request that ends as junk, id or shape.
func (r request) malformed(how string) string {
	return map[string]string{
		"junk":  `{"jsonrpc"`,
		"id":    `{"jsonrpc":"2.0","id":77777,"result":{}}`,
		"shape": fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"content":7,"contents":7,"messages":7}}`, r.ID),
	}[how]
}

// endBadlyOnStdio passes requests on, without those whose answers are malformed.
func endBadlyOnStdio(to *io.PipeWriter) {
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 64<<20)
	for in.Scan() {
		var r request
		_ = json.Unmarshal(in.Bytes(), &r)
		if text := r.malformed(r.effect().How); text != "" {
			enter(r.effect().N)
			fmt.Println(text)
			continue
		}
		_, _ = to.Write(append(slices.Clone(in.Bytes()), '\n'))
	}
	to.Close()
}

// enter appends n to the file of the effects, on disk.
func enter(n int) {
	f, err := os.OpenFile(os.Args[1], os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = fmt.Fprintln(f, n)
	}
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		panic(err)
	}
}

// Entries counts the calls by number.
func Entries(path string) map[int]int {
	f, err := os.Open(path)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		panic(err)
	}
	defer f.Close()
	count := map[int]int{}
	for {
		var n int
		if _, err := fmt.Fscan(f, &n); err != nil {
			return count
		}
		count[n]++
	}
}
