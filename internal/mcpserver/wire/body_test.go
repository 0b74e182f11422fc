package wire

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/access"
	"github.com/sandpiper-mcp/sandpiper/internal/memory"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
)

// holding is a tool whose calls wait until finish is closed.
func holding() (t Tool, began chan struct{}, finish chan struct{}) {
	began, finish = make(chan struct{}, 16), make(chan struct{})
	return Tool{Name: "hold", Schema: json.RawMessage(schema), Handle: func(ctx context.Context, c Call) (redact.Redacted, error) {
		began <- struct{}{}
		select {
		case <-finish:
		case <-ctx.Done():
		}
		return gate.Redact(ctx, "done")
	}}, began, finish
}

// callWith is a call with an argument of n bytes.
func callWith(id, n int, e protocol) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"hold","arguments":{"text":%q}%s}}`, id,
		strings.Repeat("a", n), e.meta)
}

func TestBodiesOfCallerAreLimitedTogether(t *testing.T) {
	budget := memory.New(memory.Config{PerOwner: 10 << 20, Total: 64 << 20, Wait: 10 * time.Millisecond})
	tool, began, finish := holding()
	s, err := New(Config{Name: "test", Version: "1", Tools: []Tool{tool}, Memory: budget})
	if err != nil {
		t.Fatal(err)
	}
	w := serveWebOf(t, s.HTTP(HTTPConfig{Verify: func(_ context.Context, given access.Credentials) (Caller, error) {
		return Caller{Name: given.Token}, nil
	}}))
	alice, bob := []string{"Authorization", "Bearer alice"}, []string{"Authorization", "Bearer bob"}
	e := today("hold")
	answers := make(chan string, 4)
	post := func(body string, header []string) {
		res, err := w.send(t.Context(), http.MethodPost, body, append(append([]string{}, e.header...), header...)...)
		if err != nil {
			answers <- err.Error()
			return
		}
		defer res.Body.Close()
		text, _ := io.ReadAll(res.Body)
		answers <- fmt.Sprint(res.StatusCode, " ", res.Header.Get("Retry-After"), " ", string(text))
	}
	go post(callWith(1, 2<<20, e), alice)
	<-began
	for _, c := range []struct {
		bytes  int
		header []string
		want   string
	}{
		{2 << 20, alice, "429 1 the memory for requests is used up: yours hold 9 MiB of 10 MiB, and this one needs 9 MiB; try " +
			"again in 1 s"},
		{3 << 20, bob, "413  this request needs 13 MiB of memory"},
	} {
		if post(callWith(2, c.bytes, e), c.header); true {
			if got := <-answers; !strings.HasPrefix(got, c.want) {
				t.Errorf("%d bytes: %s", c.bytes, got)
			}
		}
	}
	go post(callWith(3, 10, e), alice) // small
	<-began
	go post(callWith(4, 2<<20, e), bob)
	<-began
	close(finish)
	for range 3 {
		if got := <-answers; !strings.HasPrefix(got, "200") {
			t.Error(got)
		}
	}
	for _, owner := range []string{"alice", "bob"} {
		share, err := budget.Reserve(t.Context(), owner, 10<<20) // waits for the end of the handlers
		if err != nil {
			t.Errorf("%s: %v", owner, err)
		}
		share.Release()
	}
}

func TestBodyOfUndeclaredSize(t *testing.T) {
	budget := memory.New(memory.Config{PerOwner: 10 << 20, Total: 64 << 20, Wait: 10 * time.Millisecond})
	tool, _, finish := holding()
	close(finish)
	s, err := New(Config{Name: "test", Version: "1", Caller: "local", Tools: []Tool{tool}, Memory: budget})
	if err != nil {
		t.Fatal(err)
	}
	w := serveWebOf(t, s.HTTP(HTTPConfig{MaxBody: 4 << 20}))
	e := today("hold")
	for n, want := range map[int]string{
		1000: "200 ", 1 << 20: "200 ", 3 << 20: "413 this request needs 11 MiB of memory",
	} {
		if got := postUndeclared(t, w.url, io.MultiReader(strings.NewReader(callWith(1, n, e))), e); !strings.HasPrefix(got, want) {
			t.Errorf("%d bytes: %.300s", n, got)
		}
	}
	w = serveWebOf(t, s.HTTP(HTTPConfig{MaxBody: 1 << 20}))
	if got, want := postUndeclared(t, w.url, io.MultiReader(strings.NewReader(callWith(1, 2<<20, e))), e),
		"413 a request has at most 1048576 bytes"; !strings.HasPrefix(got, want) {
		t.Errorf("%.300s", got)
	}
}

func TestLargeLinesAreLimitedTogether(t *testing.T) {
	budget := memory.New(memory.Config{PerOwner: 10 << 20, Total: 64 << 20, Wait: 10 * time.Millisecond})
	tool, began, finish := holding()
	c := dial(t, Config{Caller: "local", Tools: []Tool{tool}, Memory: budget})
	c.handshake()
	c.send("%s", callWith(1, 2<<20, protocol{}))
	<-began
	c.send("%s", callWith(2, 2<<20, protocol{}))
	if a := c.read(); a.Error == nil || a.ID != 2.0 || !strings.Contains(a.Error.Message, "try again in 1 s") {
		t.Errorf("%.300s", a.raw)
	}
	c.send("%s", callWith(3, 10, protocol{}))
	<-began
	close(finish)
	for range 2 {
		if a := c.read(); a.Error != nil {
			t.Errorf("%.300s", a.raw)
		}
	}
	c.send("%s", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"reason":"`+strings.Repeat("a", 2<<20)+`"}}`)
	c.send("%s", strings.Repeat("x", 2<<20)) // no JSON
	c.read()
	c.in.Close()
	<-c.ended
	if one, all := budget.Used("local"); one != 0 || all != 0 {
		t.Errorf("%d of %d bytes are left", one, all)
	}
}

// Two requests of the largest size of one caller are served at a time under the default limit.
func TestTwoLargestRequestsAtOnce(t *testing.T) {
	budget := memory.New(memory.Config{Total: 1 << 30, Wait: 100 * time.Millisecond})
	tool, began, finish := holding()
	s, err := New(Config{Name: "test", Version: "1", Caller: "local", Tools: []Tool{tool}, Memory: budget})
	if err != nil {
		t.Fatal(err)
	}
	w := serveWebOf(t, s.HTTP(HTTPConfig{}))
	e := today("hold")
	body := callWith(1, maxLine-len(callWith(1, 0, e)), e)
	answers := make(chan string, 3)
	post := func() {
		res, err := w.send(t.Context(), http.MethodPost, body, e.header...)
		if err != nil {
			answers <- err.Error()
			return
		}
		defer res.Body.Close()
		text, _ := io.ReadAll(res.Body)
		answers <- fmt.Sprintf("%d %s", res.StatusCode, text)
	}
	for range 2 {
		go post()
	}
	for range 2 {
		select {
		case <-began:
		case a := <-answers:
			t.Fatalf("%.200s", a)
		}
	}
	post()
	if a := <-answers; !strings.HasPrefix(a, "429 the memory for requests is used up") || !strings.Contains(a, "try again in 1 s") {
		t.Errorf("the third: %.200s", a)
	}
	close(finish)
	for range 2 {
		if a := <-answers; !strings.HasPrefix(a, "200") {
			t.Errorf("%.200s", a)
		}
	}
}

// A request of undeclared size holds what its actual size takes while it is served.
func TestBodyOfUndeclaredSizeHoldsItsSize(t *testing.T) {
	budget := memory.New(memory.Config{PerOwner: 64 << 20, Total: 1 << 30, Wait: 10 * time.Millisecond})
	tool, began, finish := holding()
	s, err := New(Config{Name: "test", Version: "1", Caller: "local", Tools: []Tool{tool}, Memory: budget})
	if err != nil {
		t.Fatal(err)
	}
	w := serveWebOf(t, s.HTTP(HTTPConfig{}))
	e := today("hold")
	answered := make(chan string, 1)
	body := callWith(1, 1<<20, e)
	go func() { answered <- postUndeclared(t, w.url, io.MultiReader(strings.NewReader(body)), e) }()
	select {
	case <-began:
	case a := <-answered:
		t.Fatalf("%.200s", a)
	}
	if one, _ := budget.Used("local"); one != perByte*int64(len(body)) {
		t.Errorf("%d bytes are held for a request of %d", one, len(body))
	}
	close(finish)
	if a := <-answered; !strings.HasPrefix(a, "200") {
		t.Errorf("%.200s", a)
	}
}

// postUndeclared posts a body of undeclared size and returns the status and the answer.
func postUndeclared(t *testing.T, url string, body io.Reader, e protocol) string {
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, body)
	if err != nil {
		return err.Error()
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	for i := 0; i < len(e.header); i += 2 {
		r.Header.Set(e.header[i], e.header[i+1])
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return err.Error()
	}
	defer res.Body.Close()
	text, _ := io.ReadAll(res.Body)
	return fmt.Sprintf("%d %s", res.StatusCode, text)
}

// Bodies that do not arrive hold what has arrived: others of the caller are served.
func TestBodiesThatDoNotArriveHoldWhatHasArrived(t *testing.T) {
	budget := memory.New(memory.Config{Total: 1 << 30, Wait: 5 * time.Second})
	tool, _, finish := holding()
	close(finish)
	s, err := New(Config{Name: "test", Version: "1", Caller: "local", Tools: []Tool{tool}, Memory: budget})
	if err != nil {
		t.Fatal(err)
	}
	w := serveWebOf(t, s.HTTP(HTTPConfig{}))
	e := today("hold")
	header := "POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"
	for i := 0; i < len(e.header); i += 2 {
		header += e.header[i] + ": " + e.header[i+1] + "\r\n"
	}
	for _, size := range []string{"Content-Length: 33554432\r\n\r\n" + strings.Repeat(" ", 200<<10),
		"Transfer-Encoding: chunked\r\n\r\n1000000\r\n" + strings.Repeat(" ", 200<<10)} {
		for range 4 {
			c, err := net.Dial("tcp", strings.TrimPrefix(w.url, "http://"))
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if _, err := io.WriteString(c, header+size); err != nil {
				t.Fatal(err)
			}
		}
	}
	for one, _ := budget.Used("local"); one == 0; one, _ = budget.Used("local") { // until they are read
		time.Sleep(time.Millisecond)
	}
	for i := range 2 {
		res, err := w.send(t.Context(), http.MethodPost, callWith(i, 30<<20, e), e.header...)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(res.Body)
		res.Body.Close()
		if res.StatusCode != http.StatusOK {
			t.Errorf("%s %.200s", res.Status, text)
		}
	}
	if one, _ := budget.Used("local"); one > 8*2<<20 {
		t.Errorf("%d bytes are held for 8 bodies of which 200 KiB have arrived", one)
	}
}

// A body that stops arriving is answered, and named as the reason.
func TestBodyThatStopsIsAnswered(t *testing.T) {
	tool, _, _ := holding()
	budget := memory.New(memory.Config{})
	s, err := New(Config{Name: "test", Version: "1", Caller: "local", Tools: []Tool{tool}, Memory: budget})
	if err != nil {
		t.Fatal(err)
	}
	h := s.HTTP(HTTPConfig{})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(500 * time.Millisecond))
		h.ServeHTTP(w, r)
	}))
	t.Cleanup(func() { h.Close(); srv.CloseClientConnections(); srv.Close() })
	for body, want := range map[string]string{
		"Content-Length: 1000\r\n\r\nabc":                                             "it stopped after 3 of 1000 bytes",
		"Content-Length: 1000000\r\n\r\n" + strings.Repeat(" ", 100<<10):              "it stopped after 102400 of 1000000 bytes",
		"Transfer-Encoding: chunked\r\n\r\n100000\r\n" + strings.Repeat(" ", 100<<10): "it stopped after 102400 bytes",
	} {
		c, err := net.Dial("tcp", strings.TrimPrefix(srv.URL, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := io.WriteString(c, "POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"+body); err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(c)
		if !strings.HasPrefix(string(text), "HTTP/1.1 408 ") || !strings.Contains(string(text),
			"the body of the request did not arrive in time: "+want) {
			t.Errorf("%.40q: %s", body, text)
		}
	}
	if _, all := budget.Used("local"); all != 0 {
		t.Errorf("%d bytes are left", all)
	}
}

// The memory of a call is held until it is answered, also if that is after the end of its HTTP request.
func TestCallThatOutlastsItsRequestHoldsMemory(t *testing.T) {
	budget := memory.New(memory.Config{PerOwner: 64 << 20, Total: 1 << 30})
	const size = 1 << 20
	used := func() int64 { one, _ := budget.Used("local"); return one }
	for name, begin := range map[string]func(*testing.T, *HTTP) (end func()){
		"over a stream of events": func(t *testing.T, h *HTTP) func() {
			events := dialEvents(t, t.Context(), serveEvents(t, h), "")
			events.must(callWith(1, size, protocol{}), "")
			return func() { events.next() }
		},
		"of a client that was disconnected": func(t *testing.T, h *HTTP) func() {
			w := serveWebOf(t, h)
			ctx, leave := context.WithCancel(t.Context())
			res, err := w.send(ctx, http.MethodPost, callWith(1, size, protocol{}), w.connect()...)
			if err != nil {
				t.Fatal(err)
			}
			leave()
			res.Body.Close()
			for h.posts.TryLock() == false { // until the post has ended
				time.Sleep(time.Millisecond)
			}
			h.posts.Unlock()
			return func() {}
		},
	} {
		t.Run(name, func(t *testing.T) {
			tool, began, finish := holding()
			s, err := New(Config{Name: "test", Version: "1", Caller: "local", Tools: []Tool{tool}, Memory: budget})
			if err != nil {
				t.Fatal(err)
			}
			end := begin(t, s.HTTP(HTTPConfig{Return: time.Hour}))
			<-began
			if used() < perByte*size {
				t.Errorf("%d bytes are held for a call with %d", used(), size)
			}
			close(finish)
			end()
			for try := 0; used() != 0; try++ {
				if time.Sleep(time.Millisecond); try == 5000 {
					t.Fatalf("%d bytes are held after the call", used())
				}
			}
		})
	}
}
