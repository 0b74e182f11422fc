package wire

import (
	"context"
	"fmt"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// callers determines the caller of every request, on every transport. No other code
// reads a token.
type callers struct {
	verify  func(context.Context, string) (string, error) // nil requires no token
	unnamed string                                        // the caller where no token is required
}

// on returns the caller of the HTTP request that ctx is derived from, or "" if a
// token is required and the request had none.
func (c callers) on(ctx context.Context) string {
	if c.verify == nil {
		return c.unnamed
	}
	if info := auth.TokenInfoFromContext(ctx); info != nil {
		return info.UserID
	}
	return ""
}

// of returns the caller of req, or "" if a token is required and req has none. The
// SDK derives ctx from the request that opened the connection, and with most
// transports adds the token of the request that brought req: both must agree.
func (c callers) of(ctx context.Context, req mcp.Request) string {
	caller := c.on(ctx)
	if x := req.GetExtra(); c.verify != nil && x != nil && x.TokenInfo != nil && x.TokenInfo.UserID != caller {
		return ""
	}
	return caller
}

// required rejects requests without a caller if a token is required. It does not rely on
// the transport to have checked.
func (c callers) required(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		if c.verify != nil && c.of(ctx, req) == "" {
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "this server requires a token"}
		}
		return next(ctx, method, req)
	}
}

// identified requires a valid token.
func (c callers) identified(h http.Handler) http.Handler {
	if c.verify == nil {
		return h
	}
	check := func(ctx context.Context, token string, _ *http.Request) (*auth.TokenInfo, error) {
		caller, err := c.verify(ctx, token)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", auth.ErrInvalidToken, err)
		}
		if caller == "" {
			return nil, fmt.Errorf("%w: it has no owner", auth.ErrInvalidToken)
		}
		return &auth.TokenInfo{UserID: caller}, nil
	}
	required := auth.RequireBearerToken(check, &auth.RequireBearerTokenOptions{AllowMissingExpiration: true})
	const challenge = "WWW-Authenticate" // required by HTTP, omitted by the SDK
	asked := required(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Del(challenge)
		h.ServeHTTP(w, r)
	}))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(challenge, "Bearer")
		asked.ServeHTTP(w, r)
	})
}
