package wire

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home/stream"
)

// lastEvent is the header of a request that resumes a stream.
const lastEvent = "Last-Event-Id"

// keptAnswers keeps the answers of connections on disk. A connection ends with the daemon,
// but a client that lost the stream of a call may ask the next daemon for the answer.
type keptAnswers struct {
	use      func(context.Context, string, func(*stream.Store) error) error // as HTTPConfig.Answers
	log      *slog.Logger
	stopping atomic.Bool // connections that end now may be resumed
}

// put keeps an answer. Without it, the client can only resume while the daemon runs.
func (k *keptAnswers) put(ctx context.Context, caller string, a stream.Answer) {
	if k.use == nil {
		return
	}
	err := k.use(context.WithoutCancel(ctx), caller, func(s *stream.Store) error { return s.Put(a) })
	if err != nil && fault.KindOf(err) != fault.Exhausted {
		k.log.Warn("an answer was not kept for a client that resumes its stream", "error", err)
	}
}

// forget deletes the answers of a connection that ended.
func (k *keptAnswers) forget(ctx context.Context, caller, connection string) {
	if k.use == nil || k.stopping.Load() {
		return
	}
	err := k.use(context.WithoutCancel(ctx), caller, func(s *stream.Store) error { return s.Forget(connection) })
	if err != nil {
		k.log.Debug("delete the answers of a connection", "error", err)
	}
}

// serve answers a request that resumes a stream of a connection which ended with an earlier
// daemon. It returns false if there is no answer of the caller; the request continues. refuse answers a
// request that lacks one of the scopes that the answer needs.
func (k *keptAnswers) serve(w http.ResponseWriter, r *http.Request, caller string,
	refuse func(w http.ResponseWriter, r *http.Request, scopes []string) bool) bool {
	of, after, ok := strings.Cut(r.Header.Get(lastEvent), "_")
	index, err := strconv.Atoi(after)
	accepts := strings.Contains(strings.Join(r.Header.Values("Accept"), ","), "text/event-stream")
	if k.use == nil || r.Method != http.MethodGet || !ok || of == "" || err != nil || !accepts {
		return false
	}
	var a stream.Answer
	err = k.use(r.Context(), caller, func(s *stream.Store) (err error) {
		a, err = s.Find(r.Header.Get(connectionHeader), of)
		return err
	})
	if err != nil {
		if fault.KindOf(err) != fault.NotFound {
			k.log.Debug("find the answer of a resumed stream", "error", err)
		}
		return false
	}
	if refuse(w, r, a.Scopes) {
		return true
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-cache, no-transform")
	w.WriteHeader(http.StatusOK)
	if a.Index > index {
		fmt.Fprintf(w, "event: message\nid: %s_%d\ndata: %s\n\n", of, a.Index, a.Data)
	}
	return true
}

// retryDelay is when a client should reconnect. Several attempts must fit into the time that
// a client may take to return, and into a restart.
const retryDelay = 1500 * time.Millisecond

// firstEventWriter changes the first event of a stream, which has its id for clients of
// 2025-11-25. It adds the field retry, which the SDK sends only when it closes a stream itself, and
// removes the name that the SDK gives the event: the specification has none, and clients log a
// name other than "message" as unknown.
type firstEventWriter struct{ http.ResponseWriter }

// Unwrap returns the writer for http.ResponseController.
func (w *firstEventWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Write implements io.Writer. The SDK writes each event at once.
func (w *firstEventWriter) Write(p []byte) (int, error) {
	rest, first := bytes.CutPrefix(p, []byte("event: prime\n"))
	if !first {
		return w.ResponseWriter.Write(p)
	}
	if _, err := fmt.Fprintf(w.ResponseWriter, "retry: %d\n%s", retryDelay.Milliseconds(), rest); err != nil {
		return 0, err
	}
	return len(p), nil
}
