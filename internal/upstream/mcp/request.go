package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream/sanitize"
)

// roundTrip sends a request through the SDK and returns the raw result. It calls report
// with progress, on its own goroutine.
func (s *Session) roundTrip(ctx context.Context, a *request, report func(done, total float64, message string),
	send func(context.Context) error) (json.RawMessage, error) {
	if a.progress == nil {
		return s.exchange(ctx, a, send)
	}
	return s.exchange(ctx, a, func(ctx context.Context) error { return withProgress(ctx, a, report, send) })
}

// exchange sends a request and returns the raw result. When it returns, no question of
// the server is open.
func (s *Session) exchange(ctx context.Context, a *request, send func(context.Context) error) (json.RawMessage, error) {
	inner, cancel := context.WithCancel(context.WithValue(ctx, requestKey{}, a))
	defer context.AfterFunc(s.ctx, cancel)()
	a.ctx = inner
	defer a.questions.Wait()
	defer cancel()
	defer s.interceptor.forget(a)
	return s.outcome(ctx, a, send(inner))
}

// withProgress runs send and reports progress while it waits.
func withProgress(ctx context.Context, a *request, report func(done, total float64, message string),
	send func(context.Context) error) error {
	answered := make(chan error, 1)
	go func() { answered <- send(ctx) }()
	for {
		select {
		case p := <-a.progress:
			report(p.done, p.total, p.message)
		case err := <-answered:
			select { // progress received just before the response
			case p := <-a.progress:
				report(p.done, p.total, p.message)
			default:
			}
			return err
		}
	}
}

// outcome returns the result or the error. What the interceptor has seen takes
// precedence over the SDK's view of the empty result.
func (s *Session) outcome(ctx context.Context, a *request, err error) (json.RawMessage, error) {
	s.interceptor.mu.Lock()
	defer s.interceptor.mu.Unlock()
	switch {
	case a.answer != nil:
		return a.answer, nil
	case a.err != nil:
		return nil, a.err
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case s.ctx.Err() != nil:
		return nil, ErrClosed
	case err == nil:
		return nil, ErrMalformed
	}
	return nil, translateError(err)
}

// translateError extracts a displayable error from an error of the SDK.
func translateError(err error) error {
	status, isStatus := errors.AsType[*StatusError](err)
	network, isNetwork := errors.AsType[*net.OpError](err)
	dns, isDNS := errors.AsType[*net.DNSError](err)
	wire, isWire := errors.AsType[*jsonrpc.Error](err)
	own, isOwn := errors.AsType[*fault.Error](err)
	switch {
	case isOwn: // of a TokenSource
		return own
	case isStatus:
		return status
	case isDNS:
		return dns
	case isNetwork:
		return network
	case errors.Is(err, ErrOtherHost):
		return ErrOtherHost
	case errors.Is(err, ErrTooLarge):
		return ErrTooLarge
	case errors.Is(err, sdk.ErrSessionMissing), errors.Is(err, sdk.ErrConnectionClosed), errors.Is(err, io.EOF), errors.Is(err,
		io.ErrClosedPipe):
		return ErrClosed
	case isWire:
		return &ServerError{Code: int(wire.Code), Message: sanitize.Text(err.Error(), maxText), Data: wire.Data}
	}
	return err
}
