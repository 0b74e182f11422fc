package wire

import (
	"context"
	"encoding/json"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
)

// Extension is an extension of the protocol whose methods describe Resources.
type Extension struct {
	Name    string // its identifier, which is declared as a capability
	Methods map[string]ExtensionMethod
}

// ExtensionMethod returns a redacted object. Its errors are as those of Resources.
type ExtensionMethod func(ctx context.Context, caller string, p ExtensionParams) (redact.Redacted, error)

// ExtensionParams are the parameters of a request of an extension.
type ExtensionParams struct {
	Cursor string `json:"cursor,omitempty"` // of a list: empty or the nextCursor of the previous page
	URI    string `json:"uri,omitempty"`
}

type extensionParams struct {
	mcp.ParamsBase
	ExtensionParams
}

// extensionMethods answers requests of extensions.
type extensionMethods struct{ *subscriptions }

// serve serves the methods of an extension. The SDK decodes custom methods for a handler without the
// request; the middleware answers before it, because it needs the caller.
func (o extensionMethods) serve(e Extension, server *mcp.Server) error {
	for name := range e.Methods {
		err := mcp.AddReceivingCustomMethod(server, name, func(context.Context, *mcp.ServerSession, *extensionParams) (*passed, error) {
			return nil, errInternal
		})
		if err != nil {
			return err
		}
	}
	server.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (_ mcp.Result, err error) {
			defer o.contain(method, &err)
			r, ok := req.(*mcp.ServerRequest[*extensionParams])
			answer := e.Methods[method]
			if !ok || answer == nil {
				return next(ctx, method, req)
			}
			return o.answer(ctx, r, answer)
		}
	})
	return nil
}

func (o extensionMethods) answer(ctx context.Context, r *mcp.ServerRequest[*extensionParams], answer ExtensionMethod) (mcp.Result, error) {
	var p ExtensionParams
	if r.Params != nil {
		p = r.Params.ExtensionParams
	}
	redacted, err := answer(ctx, o.authn.callerOf(ctx, r), p)
	if err != nil {
		return nil, o.refuseParams(r, p.URI, err)
	}
	members, err := open[map[string]json.RawMessage](redacted)
	if err != nil {
		return nil, o.refuse(r, p.URI, err)
	}
	return newPassed(*members, true, newer(r)), nil
}
