package wire

import (
	"context"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
)

// pulse is how long a call may run without a progress notification. Some clients give up after a
// minute in which they get none.
const pulse = 15 * time.Second

// notifier notifies a client of the progress of one call: with each report of the call, and whenever
// there was none for a while. Its methods may be called concurrently.
type notifier struct {
	session *mcp.ServerSession
	token   any
	began   time.Time
	beats   *time.Timer

	mu          sync.Mutex
	done, total float64 // of the last notification
}

// newNotifier returns a notifier, or nil if the client sent no progress token. The caller stops it.
func newNotifier(ctx context.Context, req *mcp.CallToolRequest) *notifier {
	token := req.Params.GetProgressToken()
	if token == nil {
		return nil
	}
	n := &notifier{session: req.Session, token: token, began: time.Now()}
	n.mu.Lock() // until beats is set
	defer n.mu.Unlock()
	n.beats = time.AfterFunc(pulse, func() { n.beat(ctx) })
	return n
}

// stop ends the notifications.
func (n *notifier) stop() {
	if n != nil {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.beats.Stop()
		n.session = nil
	}
}

// report returns the function that handlers call; nil if n is.
func (n *notifier) report() func(ctx context.Context, done, total float64, message redact.Redacted) error {
	if n == nil {
		return nil
	}
	return func(ctx context.Context, done, total float64, message redact.Redacted) error {
		text, _, _, err := message.Content()
		if err != nil {
			return err
		}
		n.mu.Lock()
		defer n.mu.Unlock()
		n.done, n.total = done, total
		return n.notify(ctx, text)
	}
}

// beat notifies the client that the call runs. The protocol requires that the value grows; this
// step is small, so that it remains below the next value of code that counts from 1.
func (n *notifier) beat(ctx context.Context) {
	const step = 1e-6
	n.mu.Lock()
	defer n.mu.Unlock()
	n.done += step
	if ctx.Err() == nil {
		_ = n.notify(ctx, "running for "+time.Since(n.began).Round(time.Second).String()) // the client is gone
	}
}

// notify sends the current values. The caller holds mu.
func (n *notifier) notify(ctx context.Context, message string) error {
	if n.session == nil {
		return nil
	}
	n.beats.Reset(pulse)
	return n.session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{
		ProgressToken: n.token, Progress: n.done, Total: n.total, Message: message,
	})
}
