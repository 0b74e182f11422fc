package lookup

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream"
)

// Servers lists all servers with their states.
type Servers struct {
	Servers        []Server        `json:"servers"`
	SemanticSearch *SemanticSearch `json:"search_by_meaning,omitempty"` // nil without a model
	// Untrusted lists files of the project that may configure more servers and are not read.
	Untrusted []string `json:"untrusted_files,omitempty"`
	Hint      string   `json:"hint,omitempty"`
}

// SemanticSearch is the state of semantic search. Without it, search is lexical.
type SemanticSearch struct {
	Model  string `json:"model"`
	Tools  int    `json:"tools"`
	Known  int    `json:"known"`            // tools that the index contains
	Reason string `json:"reason,omitempty"` // of a failure, also if it affects only some tools
	Hint   string `json:"hint,omitempty"`
}

// Embeddings is the model of semantic search.
type Embeddings interface {
	// Local reports whether queries stay in this process.
	Local() bool
	State() SemanticSearch
}

// Server is one server.
type Server struct {
	Name        string   `json:"name"`
	Title       string   `json:"title,omitempty"`
	Import      string   `json:"import,omitempty"`
	Category    string   `json:"category"`
	State       string   `json:"state"` // of an upstream.Phase, NotConnected or Disabled
	Reason      string   `json:"reason,omitempty"`
	Hint        string   `json:"hint,omitempty"`
	Stderr      []string `json:"stderr,omitempty"` // its last lines, if it failed
	Tools       int      `json:"tool_count"`
	Quarantined int      `json:"held,omitempty"`  // tools whose definition changed since they were trusted
	Notes       []string `json:"notes,omitempty"` // the first tools that were left out or changed, and why
}

// States of servers without a connection.
const (
	NotConnected = "not connected" // only a static catalog lists it
	Disabled     = "disabled"      // by the operator
)

// Servers lists all servers.
func (f *Finder) Servers() Servers {
	states := map[string]upstream.State{}
	if f.cfg.States != nil {
		for _, s := range f.cfg.States(f.viewer.Tenant) {
			states[s.Name] = s
		}
	}
	all := Servers{Servers: []Server{}}
	now := f.now()
	for _, v := range now.Servers {
		s := Server{
			Name:        v.Name,
			Title:       v.Title,
			Category:    v.Category,
			State:       NotConnected,
			Tools:       v.Tools,
			Quarantined: v.Quarantined,
			Notes:       firstNotes(v.Notes),
		}
		if v.Connected {
			s.Import, s.State = "from servers import "+v.Module, upstream.Stopped.String()
		}
		if state, ok := states[v.Name]; ok {
			s.State, s.Reason, s.Hint = state.State.String(), state.Reason, state.Hint
			if state.Reason != "" {
				s.Stderr = state.Stderr
			}
		}
		all.Servers = append(all.Servers, s)
	}
	for _, name := range now.Disabled {
		all.Servers = append(all.Servers, Server{Name: name, State: Disabled})
	}
	all.SemanticSearch = f.SemanticSearch()
	if all.Untrusted = f.cfg.Untrusted; len(all.Untrusted) > 0 {
		all.Hint = "these files may configure more servers; the user can allow it with `sandpiper trust`"
	}
	return all
}

// firstNotes returns the first notes about a list of tools, and counts the others.
func firstNotes(notes []string) []string {
	const most = 5
	if len(notes) <= most {
		return notes
	}
	return append(slices.Clone(notes[:most]), fmt.Sprintf("%d more", len(notes)-most))
}

// ServerStates describes the states of all servers in one line, since not every
// profile includes list_servers.
func (f *Finder) ServerStates() string {
	var all []string
	for _, s := range f.Servers().Servers {
		how := s.State
		if s.Reason != "" {
			how += ": " + s.Reason
		}
		all = append(all, s.Name+" ("+how+")")
	}
	if len(all) == 0 {
		return "no server is connected: servers: in sandpiper.yaml names them, and `sandpiper servers add` or `sandpiper init` adds them"
	}
	return "servers: " + listSome(all)
}

// SemanticSearch returns the state of semantic search; nil without a model.
func (f view) SemanticSearch() *SemanticSearch {
	if f.cfg.Embeddings == nil {
		return nil
	}
	m := f.cfg.Embeddings.State()
	return &m
}

// Connected describes the connected servers.
type Connected struct {
	Modules    []string          // their Python names
	Categories map[string]string // of each, by its Python name
	Topics     []string          // see catalog.Overview
}

// ConnectedTo returns the connected servers of a Finder.
func ConnectedTo(f *Finder) Connected {
	now := catalog.OverviewFor(f.cfg.Catalog, f.viewer)
	c := Connected{Categories: map[string]string{}, Topics: now.Topics}
	for _, s := range now.Servers {
		if s.Connected {
			c.Modules = append(c.Modules, s.Module)
			c.Categories[s.Module] = s.Category
		}
	}
	return c
}

// ServerTools lists the tools of one server.
type ServerTools struct {
	Server string   `json:"server"`
	Import string   `json:"import,omitempty"`
	Count  int      `json:"count"`
	Tools  []Hit    `json:"tools"`
	Notes  []string `json:"notes,omitempty"` // see Server
}

// ServerTools returns the tools of one server. It waits for a server that is being started and was
// never listed.
func (f *Finder) ServerTools(ctx context.Context, server string) (ServerTools, error) {
	now := f.now()
	v, ok := now.Server(server)
	if ok {
		now = f.awaitListing(ctx, v)
		v, ok = now.Server(v.Name)
	}
	if !ok {
		own := f.serverModules(now, server)
		if len(own) == 0 {
			return ServerTools{}, unknownServer(now, server)
		}
		return ServerTools{Server: server, Import: "from servers." + server + " import …", Tools: own, Count: len(own)}, nil
	}
	s := ServerTools{Server: v.Name, Tools: []Hit{}, Notes: firstNotes(v.Notes)}
	if v.Connected {
		s.Import = "from servers." + v.Module + " import …"
	}
	for _, t := range now.Of(v.Name) {
		s.Tools = append(s.Tools, hit(now, t, Summary))
	}
	s.Tools = append(s.Tools, f.serverModules(now, v.Module)...)
	s.Count = len(s.Tools)
	return s, nil
}

func serversHint(now *catalog.Snapshot, name string) string {
	if near := now.NearestServers(name, 3); len(near) > 0 {
		return "did you mean " + strings.Join(near, " or ") + "?"
	}
	var names []string
	for _, v := range now.Servers {
		names = append(names, v.Name)
	}
	if len(names) == 0 {
		return "no server is configured: add servers: to sandpiper.yaml"
	}
	return "there are " + strings.Join(names[:min(20, len(names))], ", ")
}
