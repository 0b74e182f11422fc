package upstream_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/upstream/upstreamtest"
)

// TestMain also runs this binary as a broken server and as the client of the conformance suites.
func TestMain(m *testing.M) {
	upstreamtest.Main()
	if len(os.Args) == 3 && os.Args[1] == "conformance-client" {
		os.Exit(conform(os.Args[2]))
	}
	if kind := os.Getenv("UPSTREAM_TEST_SERVER"); kind != "" {
		misbehave(kind)
		return
	}
	dir, err := os.MkdirTemp("", "upstream-test-")
	if err != nil {
		panic(err)
	}
	buildExamples = sync.OnceValues(func() (string, error) {
		if out, err := exec.Command("go", "build", "-o", dir, "../../examples/servers/...").CombinedOutput(); err != nil {
			return "", fmt.Errorf("go build: %v\n%s", err, out)
		}
		return dir, nil
	})
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// buildExamples builds the servers in examples/servers once for all tests and returns their
// directory.
var buildExamples func() (string, error)

// bad is a server without an SDK. It implements the parts of the protocol that the tests need.
type bad struct {
	kind string
	mu   sync.Mutex
	out  *bufio.Writer
	list int // number of tools/list requests
}

type request struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		Name      string                      `json:"name"`
		Cursor    string                      `json:"cursor"`
		Arguments map[string]any              `json:"arguments"`
		Meta      struct{ ProgressToken any } `json:"_meta"`
	} `json:"params"`
	Error  json.RawMessage `json:"error"`
	Result json.RawMessage `json:"result"`
}

func misbehave(kind string) {
	signal.Ignore(syscall.SIGTERM)
	switch kind {
	case "hangs":
		for {
			time.Sleep(time.Hour) // not select: the runtime ends a program in which all goroutines are blocked
		}
	case "crashes":
		fmt.Fprintln(os.Stderr, "loading plugins\n\x1b[31mfatal:\x1b[0m no configuration, token sesame-open")
		os.Exit(3)
	case "floods":
		go func() {
			line := strings.Repeat("noise ", 1000) + "\n"
			for {
				fmt.Fprint(os.Stderr, line)
			}
		}()
	case "prints":
		fmt.Print("Starting server...\n\n\xff\xfe half \xe2\x82\n{\"json\": \"but no message\"}\n[1,2]\n" + strings.Repeat("x",
			3<<20) + "\nprompt> ")
	}
	b := &bad{kind: kind, out: bufio.NewWriterSize(os.Stdout, 1<<20)}
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 64<<20)
	for in.Scan() {
		var r request
		if err := json.Unmarshal(in.Bytes(), &r); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		go b.handle(r)
	}
	if kind == "stays" {
		select {}
	}
}

func (b *bad) send(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	fmt.Fprintf(b.out, format+"\n", args...)
	b.out.Flush()
}

func (b *bad) reply(id json.RawMessage, result string) {
	result = strings.ReplaceAll(result, "\n", "")
	if b.kind == "writes ids last" {
		b.send(`{"result":%s,"jsonrpc":"2.0","id":%s}`, result, id)
		return
	}
	b.send(`{"jsonrpc":"2.0","id":%s,"result":%s}`, id, result)
}

func (b *bad) handle(r request) {
	switch r.Method {
	case "server/discover":
		switch b.kind {
		case "dies of news":
			fmt.Fprintln(os.Stderr, "expected initialize")
			os.Exit(1)
		case "ignores news":
			return
		}
		b.send(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"unknown"}}`, r.ID)
	case "initialize":
		b.reply(r.ID, `{"protocolVersion":"2025-06-18","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"bad\u202e","version":"1"},"instructions":"be\u0007 kind"}`)
	case "notifications/initialized":
		if b.kind == "asks" {
			for i, method := range []string{"sampling/createMessage", "elicitation/create", "roots/list", "ping"} {
				b.send(`{"jsonrpc":"2.0","id":"q%d","method":%q,"params":{"messages":[],"maxTokens":1,"message":"who are `+
					`you","requestedSchema":{"type":"object"}}}`, i, method)
			}
		}
	case "ping":
		b.reply(r.ID, `{}`)
	case "tools/list":
		b.tools(r)
	case "resources/list", "resources/templates/list", "prompts/list":
		b.others(r)
	case "tools/call":
		b.call(r)
	case "":
		fmt.Fprintf(os.Stderr, "answer to %s: %s%s\n", r.ID, r.Result, r.Error)
	case "notifications/cancelled":
		fmt.Fprintln(os.Stderr, "cancelled")
	}
}

func (b *bad) tools(r request) {
	switch b.kind {
	case "never ends":
		b.reply(r.ID, fmt.Sprintf(`{"tools":[],"nextCursor":"%sx"}`, r.Params.Cursor))
		return
	case "goes in circles":
		b.reply(r.ID, `{"tools":[{"name":"a","inputSchema":{"type":"object"}}],"nextCursor":"again"}`)
		return
	case "lists much":
		b.many(r)
		return
	case "lists rubbish":
		b.reply(r.ID, rubbish())
		return
	case "lists no list":
		b.reply(r.ID, `{"tools":{"a":1}}`)
		return
	case "forgets its lists":
		if r.Params.Cursor == "" {
			b.reply(r.ID, `{"tools":[{"name":"a","inputSchema":{"type":"object"}}],"nextCursor":"2"}`)
			return
		}
		b.others(r)
		return
	}
	b.list++
	extra := ""
	if b.list > 1 {
		extra = `,{"name":"new","inputSchema":{"type":"object"}}`
	}
	b.reply(r.ID, `{"tools":[{"name":"echo","description":"says\u001b[31m it\u202e `+
		`again","inputSchema":{"type":"object","maximum":12345678901234567890.10}}`+extra+`]}`)
}

// others answers requests for resources and prompts.
func (b *bad) others(r request) {
	member := map[string]string{"resources/list": "resources", "resources/templates/list": "resourceTemplates",
		"prompts/list": "prompts"}[r.Method]
	switch {
	case b.kind == "lists no list":
		b.reply(r.ID, fmt.Sprintf(`{%q:{"a":1}}`, member))
	case b.kind == "lists rubbish":
		b.reply(r.ID, fmt.Sprintf(`{%q:[7,{"uri":"","name":""},{"uri":"x:1","uriTemplate":"x:{a}","name":"one"}]}`, member))
	case b.kind == "forgets its lists" && r.Params.Cursor == "":
		b.reply(r.ID, fmt.Sprintf(`{%q:[{"uri":"x:1","uriTemplate":"x:{a}","name":"one"}],"nextCursor":"2"}`, member))
	default:
		b.send(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"unknown"}}`, r.ID)
	}
}

// many returns 5,500 tools in pages of 500.
func (b *bad) many(r request) {
	first := 0
	fmt.Sscanf(r.Params.Cursor, "%d", &first)
	var tools []string
	for i := first; i < first+500; i++ {
		tools = append(tools, fmt.Sprintf(`{"name":"tool_%d","description":"number `+
			`%d","inputSchema":{"type":"object","properties":{"x":{"type":"string"}}}}`, i, i))
	}
	next := ""
	if first+500 < 5500 {
		next = fmt.Sprintf(`,"nextCursor":"%d"`, first+500)
	}
	b.reply(r.ID, fmt.Sprintf(`{"tools":[%s]%s}`, strings.Join(tools, ","), next))
}

func rubbish() string {
	return `{"tools":[null,7,"x",[],{"description":"no name"},{"name":""},{"name":"` + strings.Repeat("n", 301) + `"},
{"name":"odd schema","inputSchema":"a text"},{"name":"huge schema","inputSchema":{"description":"` + strings.Repeat("d", 1<<20) + `"}},
{"name":"wordy","title":5,"description":"` + strings.Repeat("ü", 40<<10) + `","inputSchema":{"type":"object"},"annotations":{"title":"Wordy\u202e","readOnlyHint":true,"destructiveHint":"perhaps"}},
{"name":"wordy","description":"another"},{"name":"a.b/c -ü","inputSchema":true},
{"name":"headers","inputSchema":{"type":"object","properties":{"a":{"type":"object","x-mcp-header":"A"}}}}]}`
}

func (b *bad) call(r request) {
	arg, _ := r.Params.Arguments["x"].(string)
	switch r.Params.Name {
	case "crash":
		fmt.Fprintln(os.Stderr, "panic: out of luck")
		os.Exit(4)
	case "hang":
		fmt.Fprintln(os.Stderr, "hanging")
		select {}
	case "huge":
		b.huge(r)
	case "broken":
		b.send(`{"jsonrpc":"2.0","id":%s,"result":{"content":[}}`, r.ID)
	case "change":
		b.send(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
		b.reply(r.ID, `{"content":[]}`)
	case "work":
		for i := 1; i <= 3; i++ {
			b.send(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%v,"progress":%d,"total":3,"message":"step\u0007 %d"}}`, r.Params.Meta.ProgressToken, i, i)
			time.Sleep(20 * time.Millisecond) // so that each is reported: only the latest is kept
		}
		b.reply(r.ID, `{"content":[]}`)
	case "refuse":
		b.send(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32602,"message":"x must not be %s","data":{"y":1}}}`, r.ID, arg)
	case "fail":
		b.reply(r.ID, `{"isError":true,"content":[{"type":"text","text":"it is broken, sesame-open"}],"structuredContent":{"code":7}}`)
	case "digits":
		b.reply(r.ID, `{"content":[],"structuredContent":{"big":12345678901234567890123,"small":0.10,"same":1e3}}`)
	case "parts":
		b.reply(r.ID, `{"content":[{"type":"text","text":"a \ud800 b"},{"type":"image","data":"AQI=","mimeType":"image/png"},{"type":"audio","data":"Aw==","mimeType":"audio/wav"},
{"type":"resource","resource":{"uri":"file:///a","mimeType":"text/plain","text":"inside"}},{"type":"resource","resource":{"uri":"file:///b","blob":"BA=="}},
{"type":"resource_link","uri":"file:///c","name":"c","description":"elsewhere","mimeType":"text/html"},{"type":"hologram","depth":3}]}`)
	case "flood news":
		for range 200_000 {
			b.send(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}`)
		}
		b.reply(r.ID, `{"content":[]}`)
	case "flood asks":
		for i := range 20_000 {
			b.send(`{"jsonrpc":"2.0","id":"f%d","method":"roots/list"}`, i)
		}
		b.reply(r.ID, `{"content":[]}`)
	default:
		b.reply(r.ID, fmt.Sprintf(`{"content":[{"type":"text","text":%q}]}`, arg))
	}
}

// huge sends an answer of 100 MB.
func (b *bad) huge(r request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	head, tail := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"`, r.ID), `"}]}}`
	if b.kind == "writes ids last" {
		head, tail = `{"result":{"content":[{"type":"text","text":"`, fmt.Sprintf(`"}]},"jsonrpc":"2.0","id":%s}`, r.ID)
	}
	b.out.WriteString(head)
	piece := strings.Repeat("0123456789", 10_000)
	for range 1000 {
		b.out.WriteString(piece)
	}
	fmt.Fprintln(b.out, tail)
	b.out.Flush()
}
