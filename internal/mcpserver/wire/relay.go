package wire

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
)

// Relay offers tools, resources and prompts of upstream servers. They are requested each
// time, because they change while clients are connected.
type Relay struct {
	// Answers has a function for each method of tools, resources, prompts and
	// completion except subscriptions. It returns the redacted result as protocol JSON,
	// which is sent unchanged. A Refused error is sent to the client, others are logged.
	Answers map[string]func(context.Context, Request) (redact.Redacted, error)
	// Versions is polled while a client is connected. Clients are notified of each
	// list whose version has changed.
	Versions func() Versions
	// Every is the polling interval; 0 means one second.
	Every time.Duration
	Scope string // a caller without it cannot use Answers; "" means none is needed
}

// Request is a relayed request.
type Request struct {
	Caller string          // as in Call
	Client string          // as in Call; also "" if the method is not tools/call
	Subset string          // as in Call
	Origin string          // as in Call
	Own    bool            // as in Call
	Params json.RawMessage // re-encoded parameters; tool arguments are unchanged
	// Progress is as in Call; also nil if the method is not tools/call.
	Progress func(ctx context.Context, done, total float64, message redact.Redacted) error
	// Ask is as in Call; also nil if the method is not tools/call.
	Ask func(ctx context.Context, questions []Question) (map[string]Reply, error)
	// Trace is as in Call; also nil if the method is not tools/call.
	Trace func(name string) string
}

// Versions identify the state of each list.
type Versions struct{ Tools, Resources, Prompts string }

// cacheable are the methods whose result has a cache lifetime.
var cacheable = []string{"tools/list", "resources/list", "resources/templates/list", "resources/read", "prompts/list"}

// relayed are the capabilities of a server with a Relay. Resources have no
// subscriptions: clients read them again.
func relayed() *mcp.ServerCapabilities {
	return &mcp.ServerCapabilities{
		Tools:       &mcp.ToolCapabilities{ListChanged: true},
		Resources:   &mcp.ResourceCapabilities{ListChanged: true},
		Prompts:     &mcp.PromptCapabilities{ListChanged: true},
		Completions: &mcp.CompletionCapabilities{},
	}
}

// relay makes server answer with the relay of s. Requests end with alive, and
// notifications with o.
func (s *Server) relay(alive context.Context, o *subscriptions, server *mcp.Server) {
	server.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (_ mcp.Result, err error) {
			answer := s.cfg.Relay.Answers[method]
			switch {
			case answer != nil:
				ctx, end := during(ctx, alive)
				defer end()
				defer o.contain(method, &err)
				return relayMethods{o}.pass(ctx, method, req, answer)
			case method == "subscriptions/listen": // ends only with alive
				ctx, end := during(ctx, o.alive)
				defer end()
				return next(ctx, method, req)
			}
			return next(ctx, method, req)
		}
	})
	o.running.Go(func() { relayMethods{o}.announce(s.cfg.Relay.Every, s.cfg.Relay.Versions, server) })
}

// relayMethods passes requests to another server, and its changes to clients.
type relayMethods struct{ *subscriptions }

// pass handles one request.
func (o relayMethods) pass(ctx context.Context, method string, req mcp.Request,
	answer func(context.Context, Request) (redact.Redacted, error)) (mcp.Result, error) {
	params, err := json.Marshal(req.GetParams())
	if err != nil {
		return nil, o.refuse(req, "", err)
	}
	r := Request{Caller: o.authn.callerOf(ctx, req), Subset: choiceOf(req).Subset, Origin: originOf(req), Own: o.authn.verify == nil,
		Params: params}
	if call, ok := req.(*mcp.CallToolRequest); ok {
		note := newNotifier(ctx, call)
		defer note.stop()
		r.Progress, r.Ask, r.Trace, r.Client = note.report(), asker(call), trace(call), clientOf(call.Session)
		if !o.authn.mayUse(ctx, req, o.askScope) {
			r.Ask = nil
		}
	}
	var uri string
	if read, ok := req.(*mcp.ReadResourceRequest); ok {
		uri = read.Params.URI
	}
	redacted, err := answer(ctx, r)
	if err != nil {
		return nil, o.refuse(req, uri, err)
	}
	members, err := open[map[string]json.RawMessage](redacted)
	if err != nil {
		return nil, o.refuse(req, uri, err)
	}
	p := newPassed(*members, slices.Contains(cacheable, method), newer(req))
	if n := redacted.Neutralized(); n > 0 && !strings.HasSuffix(method, "/list") {
		p.tell(n)
	}
	if strings.HasSuffix(method, "/list") { // the client is notified when it changes
		p.members["ttlMs"] = json.RawMessage(strconv.FormatInt(listTTL.Milliseconds(), 10))
	}
	return p, nil
}

func newer(req mcp.Request) bool {
	v, ok := req.(interface{ ProtocolVersion() string })
	return ok && v.ProtocolVersion() >= stateless
}

// passed is a result as raw JSON. The SDK's types would convert all numbers to floats
// and drop unknown members.
type passed struct {
	mcp.ResultBase
	members map[string]json.RawMessage
}

// reserved are prefixes of _meta keys that apply to one connection only; those of an
// upstream server are removed.
const reserved = "io.modelcontextprotocol/"

func newPassed(members map[string]json.RawMessage, kept, newer bool) *passed {
	var meta map[string]json.RawMessage
	_ = json.Unmarshal(members["_meta"], &meta) // absent, or not an object
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

// tell adds to the result that its text was changed in n places: to its _meta, and to the answer of a
// tool in words too, as models see nothing else.
func (p *passed) tell(n int) {
	if p.Meta == nil {
		p.Meta = mcp.Meta{}
	}
	maps.Copy(p.Meta, changedText(n))
	var content []json.RawMessage
	if json.Unmarshal(p.members["content"], &content) != nil {
		return // no answer of a tool
	}
	note, err := json.Marshal(map[string]string{"type": "text", "text": fmt.Sprintf("(Sandpiper: neutralized: %d; %s)", n, redact.Changed)})
	if err == nil {
		content = append(content, note)
		note, err = json.Marshal(content)
	}
	if err == nil {
		p.members["content"] = note
	}
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

// announce notifies clients of changed lists, until o ends. It polls their versions; every 0
// means one second.
func (o relayMethods) announce(every time.Duration, versions func() Versions, server *mcp.Server) {
	if every == 0 {
		every = time.Second
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	known, err := contained(versions)
	for {
		if err != nil {
			o.log.Error("list tools, resources and prompts of others", "error", err)
		}
		select {
		case <-o.alive.Done():
			return
		case <-tick.C:
		}
		var now Versions
		if now, err = contained(versions); err == nil {
			notify(server, known, now)
			known = now
		}
	}
}

// contained converts a panic to an error.
func contained(versions func() Versions) (v Versions, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return versions(), nil
}

// notify notifies connected clients, and since 2026-07-28 subscribed ones, of changed
// lists. The SDK tracks subscribers but notifies only about its own lists, so ring
// changes those; no client sees them.
func notify(server *mcp.Server, before, now Versions) {
	if before.Tools != now.Tools {
		server.AddTool(&mcp.Tool{Name: "changed", InputSchema: json.RawMessage(`{"type":"object"}`)},
			func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				return nil, errNobody
			})
	}
	if before.Resources != now.Resources {
		server.AddResource(&mcp.Resource{Name: "changed", URI: "changed:"},
			func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
				return nil, errNobody
			})
	}
	if before.Prompts != now.Prompts {
		server.AddPrompt(&mcp.Prompt{Name: "changed"}, func(context.Context, *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
			return nil, errNobody
		})
	}
}

var errNobody = errors.New("wire: no client can request this")
