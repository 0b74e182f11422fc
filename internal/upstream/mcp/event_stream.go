package mcp

import (
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// standing answers for the stream on which a server says what nobody asked for.
// The SDK waits for its beginning and gives a connection up when it ends some
// times; many servers have none, and proxies end those that are silent. So the
// SDK gets a stream that stands for as long as the connection, whatever becomes
// of the server's.
//
// The server's is waited for all the same, for a moment: what a server asks before
// it has the stream is lost.
func (w *httpLink) persistentStream(r *http.Request) *http.Response {
	in, out := io.Pipe()
	r = r.Clone(w.ctx)
	answered := make(chan struct{})
	first := sync.OnceFunc(func() { close(answered) })
	w.background.Go(func() {
		defer out.Close()
		for pause := time.Second; ; pause = min(2*pause, time.Minute) {
			begun := time.Now()
			if !w.copyStream(out, r, first) {
				<-w.ctx.Done()
				return
			}
			if time.Since(begun) > time.Minute {
				pause = time.Second
			}
			select {
			case <-time.After(pause):
			case <-w.ctx.Done():
				return
			}
		}
	})
	select {
	case <-answered:
	case <-time.After(streamTimeout):
	case <-w.ctx.Done():
	}
	return &http.Response{
		Status: "200 OK", StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, ContentLength: -1,
		Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: in, Request: r,
	}
}

// standingTime is how long a connection waits for the stream to begin. Some servers
// send nothing of it before they have something to say.
const streamTimeout = 2 * time.Second

// copyTo reads the server's stream once and tells whether to try again. It calls
// answered when the server has said that there is one, or none.
func (w *httpLink) copyStream(out io.Writer, r *http.Request, answered func()) (again bool) {
	client := &http.Client{Transport: roundTripFunc(w.send), CheckRedirect: w.redirect}
	res, err := client.Do(r)
	answered()
	if err != nil {
		status, ok := errors.AsType[*StatusError](err)
		return fault.KindOf(err) != fault.Denied && (!ok || status.Code >= 500)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return false
	}
	_, _ = io.Copy(out, res.Body)
	return true
}

type roundTripFunc func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (s roundTripFunc) RoundTrip(r *http.Request) (*http.Response, error) { return s(r) }
