package wire

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
)

// Relay is tools, resources and prompts of others. They are asked for at each
// request, since what there is changes while clients are connected.
type Relay struct {
	// Answers has a function for each method of tools, resources, prompts and
	// completion but those that subscribe. It returns the result of a request,
	// sealed: an object as the protocol writes it, which is passed on as it is. An
	// error that is a Refused is told to the client, others are for the log.
	Answers map[string]func(context.Context, Request) (redact.Redacted, error)
	// Versions is asked again and again while somebody is connected. Clients are
	// told of each list whose version is not what it was.
	Versions func() Versions
	// Every is how often that is, and so how often they can be told; zero means
	// every second.
	Every time.Duration
}

// Request is one that is relayed.
type Request struct {
	Caller string          // as in Call
	Params json.RawMessage // what the client sent, decoded and written again; arguments of tools as they were
	// Progress is that of Call; nil too if the method is not tools/call.
	Progress func(ctx context.Context, done, total float64, message redact.Redacted) error
	// Ask is that of Call; nil too if the method is not tools/call.
	Ask func(ctx context.Context, questions []Question) (map[string]Reply, error)
	// Trace is that of Call; nil too if the method is not tools/call.
	Trace func(name string) string
}

// Versions tell lists from what they were before.
type Versions struct{ Tools, Resources, Prompts string }

// cacheable are the methods whose result says how long it may be kept.
var cacheable = []string{"tools/list", "resources/list", "resources/templates/list", "resources/read", "prompts/list"}

// relayed is what a server with a Relay can do. Nobody can subscribe to a
// resource: who asks later reads it anew.
func relayed() *mcp.ServerCapabilities {
	return &mcp.ServerCapabilities{
		Tools:       &mcp.ToolCapabilities{ListChanged: true},
		Resources:   &mcp.ResourceCapabilities{ListChanged: true},
		Prompts:     &mcp.PromptCapabilities{ListChanged: true},
		Completions: &mcp.CompletionCapabilities{},
	}
}

// relay has server answer with what s relays. What it does ends with alive, and
// what goes on by itself with o.
func (s *Server) relay(alive context.Context, o *offer, server *mcp.Server) {
	server.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (_ mcp.Result, err error) {
			answer := s.cfg.Relay.Answers[method]
			switch {
			case answer != nil:
				ctx, end := during(ctx, alive)
				defer end()
				defer o.contain(method, &err)
				return o.pass(ctx, method, req, answer)
			case method == "subscriptions/listen": // which nothing else ends
				ctx, end := during(ctx, o.alive)
				defer end()
				return next(ctx, method, req)
			}
			return next(ctx, method, req)
		}
	})
	o.running.Go(func() { o.announce(s.cfg.Relay, server) })
}

// pass answers one request.
func (o *offer) pass(ctx context.Context, method string, req mcp.Request, answer func(context.Context, Request) (redact.Redacted, error)) (mcp.Result, error) {
	params, err := json.Marshal(req.GetParams())
	if err != nil {
		return nil, o.refuse(req, "", err)
	}
	r := Request{Caller: o.who.of(ctx, req), Params: params}
	if call, ok := req.(*mcp.CallToolRequest); ok {
		r.Progress, r.Ask, r.Trace = progress(call), asking(call), trace(call)
	}
	var uri string
	if read, ok := req.(*mcp.ReadResourceRequest); ok {
		uri = read.Params.URI
	}
	sealed, err := answer(ctx, r)
	if err != nil {
		return nil, o.refuse(req, uri, err)
	}
	members, err := open[map[string]json.RawMessage](sealed)
	if err != nil {
		return nil, o.refuse(req, uri, err)
	}
	return newPassed(*members, slices.Contains(cacheable, method), newer(req)), nil
}

func newer(req mcp.Request) bool {
	v, ok := req.(interface{ ProtocolVersion() string })
	return ok && v.ProtocolVersion() >= stateless
}

// passed is a result that others wrote. The SDK's own would make floats of all
// numbers and drop what it does not know.
type passed struct {
	mcp.ResultBase
	members map[string]json.RawMessage
}

// reserved is how keys in _meta begin that speak of one connection: those of a
// server's are not ours.
const reserved = "io.modelcontextprotocol/"

func newPassed(members map[string]json.RawMessage, kept, newer bool) *passed {
	var meta map[string]json.RawMessage
	_ = json.Unmarshal(members["_meta"], &meta) // none, or no object
	delete(members, "_meta")
	p := &passed{members: members}
	for key, value := range meta {
		if strings.HasPrefix(key, reserved) {
			continue
		}
		if p.Meta == nil {
			p.Meta = mcp.Meta{}
		}
		p.Meta[key] = value
	}
	if kept {
		members["cacheScope"], members["ttlMs"] = json.RawMessage(`"`+private+`"`), json.RawMessage("0")
	}
	if newer {
		members["resultType"] = json.RawMessage(`"complete"`)
	}
	return p
}

// MarshalJSON implements json.Marshaler.
func (p *passed) MarshalJSON() ([]byte, error) {
	if len(p.Meta) > 0 {
		meta, err := json.Marshal(p.Meta)
		if err != nil {
			return nil, err
		}
		p.members["_meta"] = meta
	}
	return json.Marshal(p.members)
}

// announce tells clients of lists that have changed, until o ends.
func (o *offer) announce(r *Relay, server *mcp.Server) {
	every := r.Every
	if every == 0 {
		every = time.Second
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	known, err := o.ask(r)
	for {
		if err != nil {
			o.log.Error("lists of others were not looked at", "error", err)
		}
		select {
		case <-o.alive.Done():
			return
		case <-tick.C:
		}
		var now Versions
		if now, err = o.ask(r); err == nil {
			ring(server, known, now)
			known = now
		}
	}
}

func (o *offer) ask(r *Relay) (v Versions, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return r.Versions(), nil
}

// ring tells whoever is connected, and in the newer era has asked for it, of the
// lists that differ. The SDK knows who that is, but tells only of its own lists:
// so something changes in those, which nobody is ever shown.
func ring(server *mcp.Server, before, now Versions) {
	if before.Tools != now.Tools {
		server.AddTool(&mcp.Tool{Name: "changed", InputSchema: json.RawMessage(`{"type":"object"}`)}, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return nil, errNobody
		})
	}
	if before.Resources != now.Resources {
		server.AddResource(&mcp.Resource{Name: "changed", URI: "changed:"}, func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
			return nil, errNobody
		})
	}
	if before.Prompts != now.Prompts {
		server.AddPrompt(&mcp.Prompt{Name: "changed"}, func(context.Context, *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
			return nil, errNobody
		})
	}
}

var errNobody = errors.New("wire: this is relayed and nobody gets here")
