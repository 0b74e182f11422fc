package blob

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"golang.org/x/oauth2"
)

// request is an HTTP request that can be sent several times.
type request struct {
	method string
	url    string
	header map[string]string
	body   []byte
}

// caller sends requests with credentials.
type caller struct {
	client *http.Client
	sign   func(*http.Request) error // adds the credentials of one request; nil: the client does
}

// refusal is an answer that is no success.
type refusal struct {
	status int
	code   string // of Azure
	text   string // the begin of the body
}

const maxRefusal = 16 << 10

func (r *refusal) Error() string {
	return fmt.Sprintf("HTTP status %d %s %.300s", r.status, r.code, r.text)
}

// refusalOf returns the refusal in the chain of err, or an empty one.
func refusalOf(err error) *refusal {
	if r, ok := errors.AsType[*refusal](err); ok {
		return r
	}
	return &refusal{}
}

// noCredentials is the error of a request that was not sent, because no credentials were to be had.
type noCredentials struct{ error }

func (e noCredentials) Unwrap() error { return e.error }

// once sends a request once. The error of an answer above 399 is a refusal; otherwise the caller closes the body.
func (c caller) once(ctx context.Context, q request) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, q.method, q.url, bytes.NewReader(q.body))
	if err != nil {
		return nil, err
	}
	for name, value := range q.header {
		r.Header.Set(name, value)
	}
	if c.sign != nil {
		if err := c.sign(r); err != nil {
			return nil, noCredentials{err}
		}
	}
	answer, err := c.client.Do(r)
	if err != nil {
		return nil, err
	}
	if answer.StatusCode < 400 {
		return answer, nil
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(answer.Body, maxRefusal))
	return nil, &refusal{answer.StatusCode, answer.Header.Get("X-Ms-Error-Code"), string(text)}
}

// repeat sends a request until it is answered, maxTries times. The request changes nothing when it is sent again.
func (c caller) repeat(ctx context.Context, q request) (answer *http.Response, err error) {
	err = retry(ctx, func() (again bool, err error) {
		answer, err = c.once(ctx, q)
		status := refusalOf(err).status
		denied := errors.As(err, new(noCredentials)) || errors.As(err, new(*oauth2.RetrieveError))
		return err != nil && ctx.Err() == nil && !denied && (status == 0 || status == http.StatusTooManyRequests || isUnclear(status)), err
	})
	return answer, err
}

// discard sends a request that can be repeated, and ignores the content of the answer.
func (c caller) discard(ctx context.Context, q request) error {
	answer, err := c.repeat(ctx, q)
	if err == nil {
		err = drain(answer)
	}
	return err
}

// drain reads the rest of an answer, so that its connection can be used again.
func drain(answer *http.Response) error {
	_, err := io.Copy(io.Discard, io.LimitReader(answer.Body, maxRefusal))
	return errors.Join(err, answer.Body.Close())
}
