package main

import (
	"slices"

	"github.com/sandpiper-mcp/sandpiper/internal/clientconfig"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// initJSON is the output of init with --json.
type initJSON struct {
	Success   bool                    `json:"success"`
	Config    string                  `json:"config"`
	Written   bool                    `json:"written"`
	Lines     string                  `json:"would_write,omitempty"` // to the configuration, in a dry run
	Servers   []initServerJSON        `json:"servers"`
	Skipped   []clientconfig.Skipped  `json:"left_out"`
	Problems  []clientconfig.Problem  `json:"problems"`
	Variables []clientconfig.Variable `json:"variables"`
	Clients   []initClientJSON        `json:"clients"`
}

// initServerJSON is a server that was found.
type initServerJSON struct {
	clientconfig.Server
	Status string `json:"status"`
}

type initClientJSON struct {
	ID      string   `json:"client"`
	File    string   `json:"file,omitempty"`
	Snippet string   `json:"snippet,omitempty"`
	Has     bool     `json:"has_sandpiper"`
	Applied bool     `json:"applied"`
	Backups []string `json:"backups,omitempty"`
	Error   string   `json:"error,omitempty"`
	Hint    string   `json:"hint,omitempty"`

	Changes []initChangeJSON `json:"would_change,omitempty"` // in a dry run
}

// initChangeJSON is the change of a file. Servers that are removed have names only, since they may
// contain secrets.
type initChangeJSON struct {
	File   string              `json:"file"`
	Add    map[string][]string `json:"add,omitempty"` // name -> command line
	Remove []string            `json:"remove,omitempty"`

	Approved []string `json:"approved,omitempty"` // of the added servers: the client calls their tools without asking
}

func (p *initPlan) json() initJSON {
	out := initJSON{
		Success:   true,
		Config:    p.path,
		Written:   len(p.added) > 0 && !p.options.dry,
		Servers:   []initServerJSON{},
		Skipped:   append([]clientconfig.Skipped{}, p.found.Skipped...),
		Problems:  append([]clientconfig.Problem{}, p.found.Problems...),
		Variables: append([]clientconfig.Variable{}, p.found.Variables...),
		Clients:   []initClientJSON{},
	}
	if p.options.dry && len(p.added) > 0 {
		out.Lines = addedLines(p.old, p.text)
	}
	for i, s := range p.found.Servers {
		out.Servers = append(out.Servers, initServerJSON{s, p.status[i]})
	}
	for _, c := range p.clients {
		client := initClientJSON{ID: c.client.ID, File: c.file.Path, Snippet: c.snippet, Has: c.has, Applied: c.applied(),
			Backups: slices.DeleteFunc(slices.Clone(c.backups), func(path string) bool { return path == "" })}
		if p.options.dry {
			client.Changes = changesJSON(c)
		}
		if c.err != nil {
			out.Success = false
			client.Error, client.Hint = fault.Message(c.err), fault.Hint(c.err)
		}
		out.Clients = append(out.Clients, client)
	}
	return out
}

func changesJSON(c initClient) (changes []initChangeJSON) {
	for _, e := range c.edits {
		change := initChangeJSON{File: e.file.Path, Remove: e.edit.Drop}
		if l := e.edit.Put; l != nil {
			change.Add = map[string][]string{clientconfig.EntryName: append([]string{l.Command}, l.Args...)}
			if l.Approved {
				change.Approved = []string{clientconfig.EntryName}
			}
		}
		changes = append(changes, change)
	}
	return changes
}
