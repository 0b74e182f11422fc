package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// firstCallID is the id of the first tools/call that is sent without the SDK, whose ids
// count from 1. The ids remain below initializeID.
const firstCallID = 1 << 30

// cancelTimeout bounds the delivery of a cancellation.
const cancelTimeout = 5 * time.Second

// caller is a link that sends tools/call itself. The SDK would encode the parameters
// twice, decode the empty result with buffers of 145 KB in all, and pass both through four
// goroutines.
type caller interface {
	// call sends a tools/call and returns when the interceptor has stored its outcome in
	// a, the connection is broken, or ctx ends. It calls report with progress.
	call(ctx context.Context, a *request, params *sdk.CallToolParams, report func(done, total float64, message string)) error
}

// callTool sends a tools/call, through the SDK if the link does not do it.
func (s *Session) callTool(ctx context.Context, a *request, params *sdk.CallToolParams,
	report func(done, total float64, message string)) (json.RawMessage, error) {
	link, ok := s.link.(caller)
	if !ok {
		return s.roundTrip(ctx, a, report, func(ctx context.Context) error {
			_, err := s.cs.CallTool(ctx, params)
			return err
		})
	}
	if s.info.Protocol > legacyProtocol {
		identify(params, s.info.Protocol, s.client)
	}
	return s.exchange(ctx, a, func(ctx context.Context) error { return link.call(ctx, a, params, report) })
}

// identify adds what each request of the newest era has in its _meta, as the SDK does.
//
// https://modelcontextprotocol.io/seps/2575
func identify(params *sdk.CallToolParams, protocol string, client *sdk.Implementation) {
	if params.Meta == nil {
		params.Meta = sdk.Meta{}
	}
	params.Meta[sdk.MetaKeyProtocolVersion] = protocol
	params.Meta[sdk.MetaKeyClientInfo] = client
	params.Meta[sdk.MetaKeyClientCapabilities] = json.RawMessage(clientCapabilities)
}

// call implements caller.
func (s *streams) call(ctx context.Context, a *request, params *sdk.CallToolParams,
	report func(done, total float64, message string)) error {
	id := s.lastCallID.Add(1)
	line, err := encodeCall(id, params)
	if err != nil {
		a.refused.Store(true)
		return err
	}
	answered := make(chan struct{})
	s.interceptor.registerCall(id, a, answered)
	if err := s.enqueue(ctx, line); err != nil {
		a.refused.Store(true)
		return err
	}
	a.sent.Store(true)
	for {
		select {
		case p := <-a.progress:
			report(p.done, p.total, p.message)
		case <-answered:
			select { // progress received just before the response
			case p := <-a.progress:
				report(p.done, p.total, p.message)
			default:
			}
			return nil
		case <-ctx.Done():
			go s.cancelCall(id, ctx.Err())
			return ctx.Err()
		case <-s.outClosed:
			return io.EOF
		case <-s.inClosed:
			return io.EOF
		case <-s.closed:
			return io.EOF
		}
	}
}

// cancelCall notifies the server that a request is cancelled.
func (s *streams) cancelCall(id int64, reason error) {
	ctx, stop := context.WithTimeout(context.Background(), cancelTimeout)
	defer stop()
	// strings always marshal
	text, _ := json.Marshal(reason.Error())
	// best effort
	_ = s.enqueue(ctx, fmt.Appendf(nil, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d,"reason":%s}}`+"\n",
		id, text))
}

// encodeCall returns the line of a tools/call.
func encodeCall(id int64, params *sdk.CallToolParams) ([]byte, error) {
	var line bytes.Buffer
	fmt.Fprintf(&line, `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":`, id)
	e := json.NewEncoder(&line)
	e.SetEscapeHTML(false)
	if err := e.Encode(params); err != nil {
		return nil, err
	}
	line.Truncate(line.Len() - 1) // the line end that Encode appends
	line.WriteString("}\n")
	return line.Bytes(), nil
}
