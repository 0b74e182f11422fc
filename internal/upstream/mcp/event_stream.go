package mcp

import (
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// persistentStream returns the response to the SDK's request for the stream of server
// messages. The SDK waits for its beginning and closes the connection after the stream
// has ended several times; many servers have no such stream, and proxies end idle ones.
// The SDK therefore gets a stream that lasts as long as the connection, and the server's
// stream is reconnected behind it.
//
// It waits up to streamTimeout for the server's stream, because a server loses requests
// that it sends before the stream exists.
func (w *httpLink) persistentStream(r *http.Request) *http.Response {
	in, out := io.Pipe()
	r = r.Clone(w.ctx)
	begun := make(chan struct{})
	first := sync.OnceFunc(func() { close(begun) })
	w.background.Go(func() {
		defer out.Close()
		for pause := time.Second; ; pause = min(2*pause, time.Minute) {
			started := time.Now()
			if !w.copyStream(out, r, first) {
				<-w.ctx.Done()
				return
			}
			if time.Since(started) > time.Minute {
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
	case <-begun:
	case <-time.After(streamTimeout):
	case <-w.ctx.Done():
	}
	return &http.Response{
		Status:        "200 OK",
		StatusCode:    http.StatusOK,
		Proto:         "HTTP/1.1",
		ProtoMajor:    1,
		ProtoMinor:    1,
		ContentLength: -1,
		Header:        http.Header{"Content-Type": {"text/event-stream"}},
		Body:          in,
		Request:       r,
	}
}

// streamTimeout is how long a connection waits for the stream to begin. Some servers
// send no headers before the first message.
const streamTimeout = 2 * time.Second

// copyStream copies the server's stream once and reports whether to reconnect. It calls
// begun when the server has responded.
func (w *httpLink) copyStream(out io.Writer, r *http.Request, begun func()) (retry bool) {
	client := &http.Client{Transport: roundTripFunc(w.send), CheckRedirect: w.redirect}
	res, err := client.Do(r)
	begun()
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
