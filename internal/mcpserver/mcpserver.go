// Package mcpserver is Sandpiper's face toward MCP clients: which tools there
// are, what they are told about, how their arguments are checked and how answers
// and failures read.
//
// A profile is how much of it a client sees. Every answer leaves through the
// exit (egress) and arrives at package wire sealed. The package decides nothing
// about executions, files or skills: each tool is a few lines into the room that
// does. A Server is immutable and safe for concurrent use.
package mcpserver

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"slices"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/execution"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver/passthrough"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver/wire"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
	"github.com/sandpiper-mcp/sandpiper/internal/telemetry"
	"github.com/sandpiper-mcp/sandpiper/internal/toolcall/lookup"
)

// Profile is how many tools are listed: every listed tool costs its reader
// tokens on every turn.
type Profile string

const (
	Lean     Profile = "lean"     // running code
	Standard Profile = "standard" // and files, skills, statistics
	Full     Profile = "full"     // everything

	// Passthrough lists the tools of the servers, and none of ours.
	Passthrough Profile = "passthrough"
)

// Profiles are those of code mode, smallest first.
var Profiles = [...]Profile{Lean, Standard, Full}

// shows reports whether a client of profile p sees a tool of profile t.
func (p Profile) shows(t Profile) bool { return p.rank() >= t.rank() }

func (p Profile) rank() int {
	for i, known := range Profiles {
		if p == known {
			return i
		}
	}
	return -1
}

// Config of a Server.
type Config struct {
	Version string            // of the daemon; required
	Python  string            // version of Python that code runs on; required
	Profile Profile           // empty means Standard
	Tenant  tenant.ID         // the tenant of connections that need no token; required
	Tenants *home.Homes       // required
	Runner  *execution.Runner // required
	Privacy *redact.Rules     // required
	// Key, of 32 bytes, seals what clients of the newer era give back; nil means one
	// of this Server's own, so that they can give it to no other.
	Key  []byte
	Find *lookup.Finder // tells of tools; nil means that there are none
	// Packages are names of what code may import beside its library; nil means none.
	Packages []string
	Servers  []string // modules of connected servers, for execute_code's description
	// Passthrough shows what servers have; required by the profile of that name.
	Passthrough *passthrough.Face
	// Sandbox names the backend, and says why it does not work if it does not.
	// Required.
	Sandbox func(context.Context) (backend string, err error)
	// Linger and Grace are how long calls under way may go on after the client
	// left and after the daemon was told to stop; zero takes wire's defaults.
	Linger, Grace time.Duration
	Telemetry     *telemetry.Recorder // nil means that nobody is told of requests
	Log           *slog.Logger        // nil means discard
}

// Server is the MCP face of a daemon.
type Server struct {
	cfg  Config
	wire *wire.Server
	key  [32]byte // seals the states that clients of the newer era give back
}

// instructions are what a client tells its model about the server as a whole.
const instructions = "Process data with Python in execute_code and return summaries, instead of reading data into the conversation. Files in /workspace and saved skills persist between calls."

// New checks cfg and returns a Server.
func New(cfg Config) (*Server, error) {
	if cfg.Profile == "" {
		cfg.Profile = Standard
	}
	if cfg.Profile.rank() < 0 && cfg.Profile != Passthrough {
		return nil, fault.New(fault.Invalid, "profile %.40q does not exist: use lean, standard, full or passthrough", cfg.Profile)
	}
	if cfg.Profile == Passthrough && cfg.Passthrough == nil {
		return nil, errors.New("mcpserver: the profile passthrough needs what it passes on")
	}
	if cfg.Tenant.IsZero() || cfg.Tenants == nil || cfg.Runner == nil || cfg.Privacy == nil || cfg.Sandbox == nil {
		return nil, errors.New("mcpserver: tenant, tenants, runner, privacy and sandbox are required")
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	s := &Server{cfg: cfg}
	if copy(s.key[:], cfg.Key) == 0 {
		rand.Read(s.key[:])
	}
	face := wire.Config{Name: "sandpiper", Title: "Sandpiper", Version: cfg.Version, Caller: cfg.Tenant.String(), Linger: cfg.Linger, Grace: cfg.Grace, Log: cfg.Log}
	if cfg.Profile == Passthrough {
		face.Relay = s.relay()
	} else {
		face.Instructions, face.Tools, face.Resources = instructions, s.listed(), s.resources()
	}
	w, err := wire.New(face)
	s.wire = w
	return s, err
}

// ServeStdio speaks with one client until in ends or ctx does.
func (s *Server) ServeStdio(ctx context.Context, in io.Reader, out io.Writer) error {
	return s.wire.ServeStdio(ctx, in, out)
}

// HTTPConfig says how a Server speaks over HTTP.
type HTTPConfig struct {
	// Verify says whose a token is; nil requires none.
	Verify func(context.Context, string) (tenant.ID, error)
	// TokenConnections and TokenRequests bound the MCP connections and the open
	// requests of one token; zero takes wire's defaults.
	TokenConnections, TokenRequests int
}

// HTTP returns the face for HTTP.
func (s *Server) HTTP(cfg HTTPConfig) *wire.HTTP {
	face := wire.HTTPConfig{CallerConnections: cfg.TokenConnections, CallerRequests: cfg.TokenRequests}
	if verify := cfg.Verify; verify != nil {
		face.Verify = func(ctx context.Context, token string) (string, error) {
			id, err := verify(ctx, token)
			return id.String(), err
		}
	}
	return s.wire.HTTP(face)
}

// tools are all there are, in the words and the order of a profile.
func (s *Server) tools(p Profile) []tool {
	return slices.Concat([]tool{s.executeTool(p), s.resumeTool()}, s.toolTools(), s.fileTools(), s.skillTools(), s.privacyTools(), s.statsTools())
}

// Listed is a tool as its readers are told of it.
type Listed struct {
	Name, Description string
	Schema            json.RawMessage // of the arguments
}

// Listing is what a client of profile p would be told, whatever this server's
// profile is.
func (s *Server) Listing(p Profile) (all []Listed) {
	for _, t := range s.of(p) {
		all = append(all, Listed{t.Name, t.Description, t.Schema})
	}
	return all
}

// listed returns the tools of the server's profile; those of Standard for
// Passthrough, which has none: what counts conversations counts those of code mode.
func (s *Server) listed() []wire.Tool {
	if s.cfg.Profile == Passthrough {
		return s.of(Standard)
	}
	return s.of(s.cfg.Profile)
}

func (s *Server) of(p Profile) []wire.Tool {
	var listed []wire.Tool
	for _, t := range s.tools(p) {
		if p.shows(t.profile) {
			listed = append(listed, t.wire(s))
		}
	}
	return listed
}

// tool is one tool of this face.
type tool struct {
	name    string
	about   string
	profile Profile // the smallest that lists it
	params  []param
	hints   wire.Hints
	longest int // characters an answer may rightly have; 0 means ordinary
	run     func(context.Context, call) (redact.Message, error)
}

// call is a tool's view of one call.
type call struct {
	wire.Call
	home    *home.Home
	tool    *tool
	privacy *redact.Rules
	session *string // of the execution that is talked about; "" without one
	wrote   redact.ModelInput
	// given is what answers the one question that a second run of an execution will
	// put again; nil if nothing does.
	given   func([]execution.Question) (execution.Answer, error)
	outcome *string // a word for telemetry
}

// exit is the border between the call's tenant and its model.
func (c call) exit() *redact.Exit {
	return c.privacy.For(redact.Owner{Tenant: c.home.ID(), Vault: c.home.Vault, Session: *c.session, ModelInput: c.wrote})
}

// values replaces tokens by their values in texts that go to the workspace.
func (c call) values(ctx context.Context, texts ...*string) (err error) {
	for _, t := range texts {
		if *t, err = c.exit().RestoreText(ctx, redact.ToFile, *t); err != nil {
			return err
		}
	}
	return nil
}

// name replaces tokens in what names a file.
func (c call) name(ctx context.Context, name *string) (err error) {
	*name, err = c.exit().RestoreName(ctx, redact.ToFile, *name)
	return err
}

// read checks the arguments and reads them into out.
func (c call) read(out any) error { return decode(c.tool.name, c.tool.params, c.Arguments, out) }

// wire wraps t for the protocol: the tenant's home is open for as long as the
// call, and whatever comes of it leaves sealed.
func (t tool) wire(s *Server) wire.Tool {
	return wire.Tool{
		Name: t.name, Description: t.about, Schema: schema(t.params), Hints: t.hints, MaxResultChars: t.longest,
		Handle: func(ctx context.Context, c wire.Call) (redact.Redacted, error) {
			ctx, span := s.cfg.Telemetry.Start(s.cfg.Telemetry.Continue(ctx, c.Trace), telemetry.Request, telemetry.Facts{Tool: t.name})
			outcome := "error"
			defer func() { span.End(outcome) }()
			home, err := s.acquire(ctx, c.Caller)
			if err != nil {
				return s.nobody().Redact(ctx, s.failed(t.name, err))
			}
			answered := call{Call: c, home: home, tool: &t, privacy: s.cfg.Privacy, session: new(sessionOf(c.Arguments)), outcome: &outcome}
			answered.wrote = redact.NewModelInput(c.Arguments, "context_vars") // what is in these came from elsewhere
			span.Update(func(f *telemetry.Facts) { f.Tenant, f.BytesIn = home.ID().String(), len(c.Arguments) })
			defer func() { span.Update(func(f *telemetry.Facts) { f.Session = *answered.session }) }()
			return s.serve(ctx, answered)
		},
	}
}

// serve answers one call, and lets go of its home.
func (s *Server) serve(ctx context.Context, c call) (sealed redact.Redacted, err error) {
	defer func() {
		// What was written is acknowledged only once it is released without fault.
		if e := c.home.Release(context.WithoutCancel(ctx)); e != nil && err == nil {
			sealed, err = s.nobody().Redact(ctx, s.failed(c.tool.name, e))
		}
	}()
	m, err := c.tool.run(ctx, c)
	if *c.outcome = "answered"; err != nil || m.Failed {
		*c.outcome = "failed"
	}
	if errors.Is(err, wire.ErrState) {
		return redact.Redacted{}, err
	}
	if err != nil {
		m = s.failed(c.tool.name, err)
	}
	sealed, err = c.exit().Redact(context.WithoutCancel(ctx), m)
	if err != nil { // tokens could not be kept, say
		if sealed, err = s.nobody().Redact(ctx, s.failed(c.tool.name, err)); err != nil {
			return sealed, err
		}
	}
	text, _, _, _ := sealed.Content()
	c.home.Usage.AddModelText(*c.session, string(c.Arguments), text)
	return sealed, nil
}

// nobody is the exit for what belongs to no tenant.
func (s *Server) nobody() *redact.Exit { return s.cfg.Privacy.For(redact.Owner{}) }

// sessionOf is the session that arguments name; what is wrong with them is said
// elsewhere.
func sessionOf(args json.RawMessage) string {
	var of struct {
		Session string `json:"session_id"`
	}
	_ = json.Unmarshal(args, &of)
	return of.Session
}

// acquire opens the home of a caller. An empty one is refused.
func (s *Server) acquire(ctx context.Context, caller string) (*home.Home, error) {
	id, err := tenant.Parse(caller)
	if err != nil {
		return nil, err
	}
	return s.cfg.Tenants.Acquire(ctx, id)
}

// failure is how every tool reports that it did not do what was asked.
type failure struct {
	Success bool   `json:"success"`
	Error   string `json:"error"`
}

// failed turns err into what a model may read of it. Faults that are ours go to
// the log, with their causes.
func (s *Server) failed(tool string, err error) redact.Message {
	s.complain(tool, err)
	return redact.Message{Body: failure{Error: sentence(err)}, Failed: true}
}

func (s *Server) complain(tool string, err error) {
	if fault.KindOf(err) == fault.Internal && !errors.Is(err, context.Canceled) {
		s.cfg.Log.Error("tool failed", "tool", tool, "error", err)
	}
}

// sentence is err's message and, after it, what to do.
func sentence(err error) string {
	if hint := fault.Hint(err); hint != "" {
		return fault.Message(err) + "; " + hint
	}
	return fault.Message(err)
}
