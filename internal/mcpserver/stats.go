package mcpserver

import (
	"context"
	"maps"
	"math"
	"slices"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver/builtin"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver/wire"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/tokens"
	"github.com/sandpiper-mcp/sandpiper/internal/toolcall/lookup"
)

// statsTools are the tools for statistics and versions.
type statsTools struct{ *Server }

func (s statsTools) all() []builtin.Tool {
	return []builtin.Tool{{
		Name: "get_execution_stats", Profile: builtin.Standard,
		Description: "Limits, workspace, sandbox.",
		Hints:       wire.Hints{ReadOnly: true},
		Run:         s.stats,
	}, {
		Name: "get_version", Profile: builtin.Full,
		Description: "The server's version.",
		Hints:       wire.Hints{ReadOnly: true},
		Run:         s.version,
	}}
}

// Stats is the answer of get_execution_stats. Capabilities lists what works.
type Stats struct {
	Workspace    StatsWorkspace `json:"workspace"`
	Skills       StatsSkills    `json:"skills"`
	Registry     *StatsRegistry `json:"tool_registry,omitempty"` // nil without a catalog
	Capabilities []string       `json:"capabilities"`
	Limits       StatsLimits    `json:"limits"`
	Executions   any            `json:"executions"`
	Tokens       *StatsTokens   `json:"tokens,omitempty"` // nil without a catalog
	Model        *StatsModel    `json:"model,omitempty"`  // nil if it was not asked
	Sandbox      StatsSandbox   `json:"sandbox"`
}

// StatsWorkspace is the workspace as code sees it.
type StatsWorkspace struct {
	Path      string `json:"path"`
	FileCount int64  `json:"file_count"`
	Bytes     int64  `json:"bytes"`
}

// StatsSkills describes the saved skills.
type StatsSkills struct {
	Count int    `json:"count"`
	Path  string `json:"path"`
}

// StatsRegistry describes the tools of servers.
type StatsRegistry struct {
	Categories []string `json:"categories"`
	TotalTools int      `json:"total_tools"`
	// Meaning is the state of search by embeddings; nil without a model.
	Meaning *lookup.SemanticSearch `json:"search_by_meaning,omitempty"`
}

// StatsTokens are the tokens (o200k) of conversations, and those that a client calling
// the tools directly would have spent.
type StatsTokens struct {
	Direct        int64   `json:"direct"` // definitions, and data kept in the sandbox
	Spent         int64   `json:"spent"`  // Sandpiper's tools, and their calls and answers
	Saved         float64 `json:"saved"`  // share of Direct; 0 while Spent is more
	Definitions   int64   `json:"definitions"`
	Inside        int64   `json:"inside"`
	ToolCalls     int64   `json:"tool_calls"` // by code
	Conversations int64   `json:"conversations"`
	Estimated     bool    `json:"estimated,omitempty"`
}

// StatsModel is what ask_llm and tasks have cost at the configured model in the last 24 hours.
type StatsModel struct {
	Requests int64   `json:"requests"`
	Input    int64   `json:"input_tokens"`
	Output   int64   `json:"output_tokens"`
	Cost     float64 `json:"cost,omitempty"` // in the currency of the configured prices
	Hours    int     `json:"hours"`
}

// StatsLimits are the limits of an execution.
type StatsLimits struct {
	DefaultTimeout float64 `json:"default_timeout_seconds"`
	DefaultMemory  int     `json:"default_memory_mb"`
	MaxTimeout     float64 `json:"max_timeout_seconds"`
	MaxMemory      int     `json:"max_memory_mb"`
	MinMemory      int     `json:"min_memory_mb"`
}

// StatsSandbox describes the sandbox, and the reason if it does not work.
type StatsSandbox struct {
	Backend    string `json:"backend"`
	Working    bool   `json:"working"`
	Restricted bool   `json:"restricted"` // code is limited to a part of Python
	Error      string `json:"error,omitempty"`
}

func (s statsTools) stats(ctx context.Context, c builtin.Call) (redact.Message, error) {
	if err := c.Read(&struct{}{}); err != nil {
		return redact.Message{}, err
	}
	st, err := s.Stats(ctx, c.Home)
	return redact.Message{Body: st}, err
}

// Stats returns the statistics of one tenant.
func (s *Server) Stats(ctx context.Context, home *home.Home) (Stats, error) {
	usage, err := home.Workspace.Usage(ctx)
	if err != nil {
		return Stats{}, err
	}
	skills, err := home.Skills.List(ctx)
	if err != nil {
		return Stats{}, err
	}
	l := s.cfg.Runner.Limits(home.ID())
	st := Stats{
		Workspace:    StatsWorkspace{Path: "/workspace", FileCount: usage.Files, Bytes: usage.Bytes},
		Skills:       StatsSkills{Count: len(skills), Path: "/workspace/skills"},
		Capabilities: []string{"skills_persistence", "workspace_files"},
		Limits: StatsLimits{
			DefaultTimeout: l.Timeout.Seconds(), DefaultMemory: l.MemoryMB,
			MaxTimeout: l.MaxTimeout.Seconds(), MaxMemory: l.MaxMemoryMB, MinMemory: l.MinMemoryMB,
		},
		Executions: s.cfg.Runner.Stats(),
	}
	if s.cfg.Privacy.Of(home.ID()).Mode() != redact.Off {
		st.Capabilities = append(st.Capabilities, "pii_tokenization")
	}
	if s.cfg.Find != nil {
		find := s.cfg.Find.For(catalog.Viewer{Tenant: home.ID()})
		c := find.Categories()
		st.Registry = &StatsRegistry{append([]string{}, slices.Sorted(maps.Keys(c.Categories))...), c.Total, find.SemanticSearch()}
		st.Capabilities = append(st.Capabilities, "progressive_tool_discovery")
	}
	if s.cfg.Find != nil {
		if st.Tokens, err = (statsTools{s}).tokens(ctx, home); err != nil {
			return Stats{}, err
		}
	}
	if st.Model, err = modelUse(ctx, home); err != nil {
		return Stats{}, err
	}
	st.Sandbox = statsTools{s}.sandbox(ctx, home.ID())
	if st.Sandbox.Working {
		st.Capabilities = append([]string{"sandboxed_execution"}, st.Capabilities...)
	}
	return st, nil
}

func modelUse(ctx context.Context, home *home.Home) (*StatsModel, error) {
	u, err := home.Quotas.ModelUse(ctx)
	if err != nil || u.Requests == 0 {
		return nil, err
	}
	return &StatsModel{Requests: u.Requests, Input: u.Input, Output: u.Output, Cost: u.Cost, Hours: 24}, nil
}

// savedShare returns the share of direct that is saved: 0 if more was spent, as by a few calls of
// a small catalog.
func savedShare(direct, spent int64) float64 {
	if spent >= direct {
		return 0
	}
	return math.Round(1000*(1-float64(spent)/float64(direct))) / 1000
}

func (s statsTools) tokens(ctx context.Context, home *home.Home) (*StatsTokens, error) {
	r, err := home.Usage.Find(ctx, "")
	if err != nil {
		return nil, err
	}
	theirs, ours := s.cfg.Find.For(catalog.Viewer{Tenant: home.ID()}).Tokens(), s.listTokens(home.ID())
	return &StatsTokens{
		Direct: r.Conversations*theirs + r.Saved, Spent: r.Conversations*ours + r.Spent, Definitions: theirs,
		Inside: r.Saved, ToolCalls: r.Calls, Conversations: r.Conversations, Estimated: r.Estimated,
		Saved: savedShare(r.Conversations*theirs+r.Saved, r.Conversations*ours+r.Spent),
	}, nil
}

// listTokens counts the tokens of the tools that a tenant is offered.
func (s statsTools) listTokens(id tenant.ID) int64 {
	n := 0
	for _, t := range offers(s).offered(offers(s).own(id)) {
		n += tokens.Count(t.Name + "\n" + t.Description + "\n" + string(t.Schema))
	}
	return int64(n)
}

func (s statsTools) sandbox(ctx context.Context, id tenant.ID) StatsSandbox {
	name, err := s.cfg.Sandbox(ctx, id)
	if err != nil {
		return StatsSandbox{Backend: name, Restricted: s.cfg.Runner.Restriction.On(), Error: fault.Sentence(err)}
	}
	return StatsSandbox{Backend: name, Restricted: s.cfg.Runner.Restriction.On(), Working: true}
}

// versionInfo is the answer of get_version.
type versionInfo struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	Python  string `json:"python"`
}

func (s statsTools) version(_ context.Context, c builtin.Call) (redact.Message, error) {
	if err := c.Read(&struct{}{}); err != nil {
		return redact.Message{}, err
	}
	return redact.Message{Body: versionInfo{"sandpiper", s.cfg.Version, s.cfg.Python}}, nil
}
