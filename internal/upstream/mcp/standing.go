package mcp

import (
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// standing answers for the stream on which a server says what nobody asked for.
// The SDK waits for its beginning and gives a connection up when it ends some
// times; many servers have none, and proxies end those that are silent. So the
// SDK gets a stream that stands for as long as the connection, whatever becomes
// of the server's.
func (w *web) standing(r *http.Request) *http.Response {
	in, out := io.Pipe()
	r = r.Clone(w.life)
	w.standers.Go(func() {
		defer out.Close()
		for pause := time.Second; ; pause = min(2*pause, time.Minute) {
			begun := time.Now()
			if !w.copyTo(out, r) {
				<-w.life.Done()
				return
			}
			if time.Since(begun) > time.Minute {
				pause = time.Second
			}
			select {
			case <-time.After(pause):
			case <-w.life.Done():
				return
			}
		}
	})
	return &http.Response{
		Status: "200 OK", StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, ContentLength: -1,
		Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: in, Request: r,
	}
}

// copyTo reads the server's stream once and tells whether to try again.
func (w *web) copyTo(out io.Writer, r *http.Request) (again bool) {
	client := &http.Client{Transport: sender(w.send), CheckRedirect: w.redirect}
	res, err := client.Do(r)
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

type sender func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (s sender) RoundTrip(r *http.Request) (*http.Response, error) { return s(r) }
