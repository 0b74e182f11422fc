package wire

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// greetings holds back the acceptance of notifications/initialized until it has
// been taken in. The SDK accepts it at once and refuses the calls that overtake
// it inside, though their client has waited for the acceptance.
type greetings struct {
	mu      sync.Mutex
	waiting map[string]chan struct{} // by connection
}

func newGreetings() *greetings { return &greetings{waiting: map[string]chan struct{}{}} }

const (
	longestGreeting = 4 << 10
	greetingWait    = time.Second // what fails to arrive is not our client's to wait for
)

// watch delays the end of the request that brings the notification.
func (g *greetings) watch(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		connection := r.Header.Get("Mcp-Session-Id")
		if r.Method != http.MethodPost || connection == "" || !greets(r) {
			next.ServeHTTP(w, r)
			return
		}
		taken := make(chan struct{})
		g.mu.Lock()
		g.waiting[connection] = taken
		g.mu.Unlock()
		next.ServeHTTP(w, r)
		select {
		case <-taken:
		case <-r.Context().Done():
		case <-time.After(greetingWait):
		}
		g.taken(connection)
	})
}

// greets reports whether a request may bring the notification. It leaves the
// body as it was.
func greets(r *http.Request) bool {
	if r.ContentLength <= 0 || r.ContentLength > longestGreeting {
		return false
	}
	body, err := io.ReadAll(r.Body)
	r.Body = io.NopCloser(io.MultiReader(bytes.NewReader(body), failing{err}))
	return bytes.Contains(body, []byte("notifications/initialized"))
}

// failing repeats the error at the end of what was read.
type failing struct{ err error }

// Read implements io.Reader.
func (f failing) Read([]byte) (int, error) {
	if f.err == nil {
		return 0, io.EOF
	}
	return 0, f.err
}

// initialized is called by the SDK once it has taken the notification in.
func (g *greetings) initialized(_ context.Context, req *mcp.InitializedRequest) {
	g.taken(req.Session.ID())
}

func (g *greetings) taken(connection string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if taken := g.waiting[connection]; taken != nil {
		close(taken)
		delete(g.waiting, connection)
	}
}
