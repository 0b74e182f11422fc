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

// initBarrier delays the response to notifications/initialized until the SDK has processed
// it. The SDK responds at once and rejects calls that overtake the notification
// internally, although their client waited for the response.
type initBarrier struct {
	mu      sync.Mutex
	waiting map[string]chan struct{} // by connection
}

func newGreetings() *initBarrier { return &initBarrier{waiting: map[string]chan struct{}{}} }

const (
	longestGreeting = 4 << 10
	greetingWait    = time.Second // limit, in case the notification never arrives
)

// watch delays the response to the request with the notification.
func (g *initBarrier) watch(next http.Handler) http.Handler {
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

// greets reports whether a request may contain the notification. It does not consume
// the body.
func greets(r *http.Request) bool {
	if r.ContentLength <= 0 || r.ContentLength > longestGreeting {
		return false
	}
	body, err := io.ReadAll(r.Body)
	r.Body = io.NopCloser(io.MultiReader(bytes.NewReader(body), failing{err}))
	return bytes.Contains(body, []byte("notifications/initialized"))
}

// failing returns the read error after the buffered bytes.
type failing struct{ err error }

// Read implements io.Reader.
func (f failing) Read([]byte) (int, error) {
	if f.err == nil {
		return 0, io.EOF
	}
	return 0, f.err
}

// initialized is called by the SDK when it has processed the notification.
func (g *initBarrier) initialized(_ context.Context, req *mcp.InitializedRequest) {
	g.taken(req.Session.ID())
}

func (g *initBarrier) taken(connection string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if taken := g.waiting[connection]; taken != nil {
		close(taken)
		delete(g.waiting, connection)
	}
}
