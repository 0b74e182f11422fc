package ledger

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// document describes the API: pay writes, set may be repeated, look and ping read.
const document = `{"openapi":"3.1.0","info":{"title":"ledger","version":"1"},"servers":[{"url":%q}],"paths":{
"/api/pay":{"post":{"operationId":"pay",%[2]s}},"/api/set":{"put":{"operationId":"set",%[2]s}},
"/api/look":{"get":{"operationId":"look",%[2]s}},"/api/ping":{"get":{"operationId":"ping",%[2]s}}}}`

const parameters = `"parameters":[{"name":"n","in":"query","schema":{"type":"integer"}},{"name":"how","in":"query","schema":{"type":"string"}}],"responses":{"200":{"description":"ok"}}`

// serveHTTP serves a port until stdin ends, in a process that is started again when it has died.
func serveHTTP() {
	if os.Args[2] == "child" {
		l, err := net.FileListener(os.NewFile(3, "listener"))
		if err != nil {
			panic(err)
		}
		go func() { _, _ = io.Copy(io.Discard, os.Stdin); os.Exit(0) }()
		_ = http.Serve(l, newHandler("http://"+l.Addr().String()))
		return
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	file, err := l.(*net.TCPListener).File()
	if err != nil {
		panic(err)
	}
	fmt.Println("http://" + l.Addr().String())
	var mu sync.Mutex
	var child *exec.Cmd
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		mu.Lock()
		_ = child.Process.Kill()
		os.Exit(0)
	}()
	for {
		next := exec.Command(os.Args[0], os.Args[1], "child")
		next.ExtraFiles, next.Stderr = []*os.File{file}, os.Stderr
		alive, err := next.StdinPipe() // its end ends the child, should this process be killed
		mu.Lock()
		if err == nil {
			err = next.Start()
		}
		if child = next; err != nil {
			panic(err)
		}
		mu.Unlock()
		_ = next.Wait()
		alive.Close()
	}
}

// handler ends requests in ways of HTTP, after their effect.
type handler struct {
	mcp, sse http.Handler
	at       string

	mu     sync.Mutex
	events http.ResponseWriter // of the last stream of /sse
	cut    func()              // ends that stream
}

func newHandler(at string) *handler {
	server := newServer()
	get := func(*http.Request) *mcp.Server { return server }
	return &handler{mcp: mcp.NewStreamableHTTPHandler(get, nil), sse: mcp.NewSSEHandler(get, nil), at: at}
}

// ServeHTTP implements http.Handler.
func (l *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path == "/openapi.json":
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, document, l.at, parameters)
	case strings.HasPrefix(r.URL.Path, "/api/"):
		l.serveAPI(w, r)
	case r.URL.Path == "/sse" && r.Method == http.MethodGet:
		ended := make(chan struct{})
		l.mu.Lock()
		l.events, l.cut = w, sync.OnceFunc(func() { close(ended) })
		l.mu.Unlock()
		go l.sse.ServeHTTP(w, r)
		select {
		case <-ended:
			panic(http.ErrAbortHandler)
		case <-r.Context().Done():
		}
	case r.URL.Path == "/sse" || r.URL.Path == "/mcp":
		l.serveMCP(w, r)
	default:
		http.NotFound(w, r)
	}
}

func (l *handler) serveMCP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	var m request
	_ = json.Unmarshal(body, &m)
	e, next := m.effect(), l.mcp
	if r.URL.Path == "/sse" {
		next = l.sse
	}
	malformed := m.malformed(e.How)
	switch {
	case endHTTP(w, r, e):
	case malformed != "" && r.URL.Path == "/sse":
		enter(e.N)
		l.mu.Lock()
		defer l.mu.Unlock()
		fmt.Fprintf(l.events, "event: message\ndata: %s\n\n", malformed)
		l.events.(http.Flusher).Flush()
		w.WriteHeader(http.StatusAccepted)
	case malformed != "":
		enter(e.N)
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, malformed)
	case e.How == "stream" && r.URL.Path == "/sse": // the stream ends without the answer
		enter(e.N)
		w.WriteHeader(http.StatusAccepted)
		l.mu.Lock()
		defer l.mu.Unlock()
		l.cut()
	case e.How == "stream":
		enter(e.N)
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, ": hello\n\n")
	default:
		next.ServeHTTP(w, r)
	}
}

func (l *handler) serveAPI(w http.ResponseWriter, r *http.Request) {
	e := effect{How: r.FormValue("how")}
	e.N, _ = strconv.Atoi(r.FormValue("n"))
	w.Header().Set("Content-Type", "application/json")
	if r.URL.Path == "/api/ping" {
		fmt.Fprint(w, "1")
		return
	}
	switch {
	case endHTTP(w, r, e):
	case e.How == "junk":
		enter(e.N)
		fmt.Fprint(w, `{"n"`)
	default:
		switch err := happen(e); {
		case e.How == "internal":
			http.Error(w, `"lost the database"`, http.StatusInternalServerError)
		case err != nil:
			http.Error(w, `"sold out"`, http.StatusConflict)
		default:
			fmt.Fprint(w, e.N)
		}
	}
}

// endHTTP ends a request with a status or without an answer, and reports whether it did.
func endHTTP(w http.ResponseWriter, r *http.Request, e effect) bool {
	switch e.How {
	case "502", "408", "cut", "redirect", "page":
		enter(e.N)
	}
	switch e.How {
	case "busy":
		w.Header().Set("Retry-After", "7")
		w.WriteHeader(http.StatusTooManyRequests)
	case "502":
		w.WriteHeader(http.StatusBadGateway)
	case "408":
		w.WriteHeader(http.StatusRequestTimeout)
	case "cut":
		panic(http.ErrAbortHandler)
	case "redirect":
		http.Redirect(w, r, "/elsewhere", http.StatusFound)
	case "page":
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, "<html>log in</html>")
	default:
		return false
	}
	return true
}
