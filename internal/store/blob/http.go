package blob

import (
	"context"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// maxTries is how often a request is sent that the store has refused and not carried out, because it is busy or
// another request for the same key is in progress.
const maxTries = 6

// firstPause is about the time before the second try. It doubles with each.
const firstPause = 50 * time.Millisecond

// retry calls try until it does not ask for another call, maxTries times. The last error is returned.
func retry(ctx context.Context, try func() (again bool, err error)) error {
	pause := firstPause
	for n := 1; ; n++ {
		again, err := try()
		if !again || n == maxTries {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(pause/2 + rand.N(pause)):
		}
		pause *= 2
	}
}

// isUnclear reports whether a status leaves open whether a request was carried out.
func isUnclear(status int) bool {
	return status == http.StatusRequestTimeout || status >= 500 && status != http.StatusNotImplemented
}

// header returns the value of the header Range for a range that is not the whole object. Of an empty range, one byte is
// requested, and not read.
func (r Range) header() string {
	switch {
	case r.empty():
		return "bytes=0-0"
	case r.End > 0:
		return "bytes=" + strconv.FormatInt(r.Begin, 10) + "-" + strconv.FormatInt(r.End-1, 10)
	default:
		return "bytes=" + strconv.FormatInt(r.Begin, 10) + "-"
	}
}

// wholeSize returns the size of the object of which an answer has a range, or all.
func wholeSize(status int, h http.Header) (int64, error) {
	if status == http.StatusPartialContent {
		_, total, _ := strings.Cut(h.Get("Content-Range"), "/")
		return strconv.ParseInt(total, 10, 64)
	}
	return strconv.ParseInt(h.Get("Content-Length"), 10, 64)
}

// newReader returns a reader of an answer to a request for a range.
func newReader(o Object, r Range, body io.ReadCloser) *Reader {
	if r.empty() {
		body.Close()
		body = http.NoBody
	}
	return &Reader{o, body}
}

// abortTime is how long the removal of the parts of a create that failed may take.
const abortTime = 10 * time.Second

// abortContext returns a context for removing the parts of a create, whose own context may have ended.
func abortContext(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), abortTime)
}

// created returns the error of the request that creates an object and failed without a clear answer.
func (n name) created(ctx context.Context, key string, sent bool, cause error) error {
	if sent {
		return n.unknown(key, cause)
	}
	return n.unavailable(ctx, creating(key), cause)
}

// traceSent returns a context for one HTTP request, and a function that reports whether anything of the request
// was sent: until then, the server cannot act on it.
func traceSent(ctx context.Context) (context.Context, func() bool) {
	sent := new(atomic.Bool)
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteHeaderField: func(string, []string) { sent.Store(true) }}), sent.Load
}
