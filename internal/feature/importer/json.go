package importer

import (
	"slices"

	"github.com/sandpiper-mcp/sandpiper/internal/config/literal"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/importer/clientconfig"
)

// planJSON is the output of init with --json.
type planJSON struct {
	Success   bool                   `json:"success"`
	Config    string                 `json:"config"`
	Written   bool                   `json:"written"`
	Lines     string                 `json:"would_write,omitempty"` // to the configuration, in a dry run
	Servers   []serverJSON           `json:"servers"`
	Skipped   []clientconfig.Skipped `json:"left_out"`
	Problems  []clientconfig.Problem `json:"problems"`
	Variables []literal.Variable     `json:"variables"`
	Clients   []clientJSON           `json:"clients"`
}

// serverJSON is a server that was found.
type serverJSON struct {
	clientconfig.Server
	Status string `json:"status"`
}

type clientJSON struct {
	ID      string   `json:"client"`
	File    string   `json:"file,omitempty"`
	Snippet string   `json:"snippet,omitempty"`
	Has     bool     `json:"has_sandpiper"`
	Applied bool     `json:"applied"`
	Backups []string `json:"backups,omitempty"`
	Error   string   `json:"error,omitempty"`
	Hint    string   `json:"hint,omitempty"`

	Changes []changeJSON `json:"would_change,omitempty"` // in a dry run
}

// changeJSON is the change of a file. Servers that are removed have names only, since they may
// contain secrets.
type changeJSON struct {
	File   string              `json:"file"`
	Add    map[string][]string `json:"add,omitempty"` // name -> command line
	Remove []string            `json:"remove,omitempty"`

	Approved []string `json:"approved,omitempty"` // of the added servers: the client calls their tools without asking
}

func (p *plan) json() planJSON {
	out := planJSON{
		Success:   true,
		Config:    p.path,
		Written:   len(p.added) > 0 && !p.options.dry,
		Servers:   []serverJSON{},
		Skipped:   append([]clientconfig.Skipped{}, p.found.Skipped...),
		Problems:  append([]clientconfig.Problem{}, p.found.Problems...),
		Variables: append([]literal.Variable{}, p.found.Variables...),
		Clients:   []clientJSON{},
	}
	if p.options.dry && len(p.added) > 0 {
		out.Lines = addedLines(p.old, p.text)
	}
	for i, s := range p.found.Servers {
		out.Servers = append(out.Servers, serverJSON{s, p.status[i]})
	}
	for _, c := range p.clients {
		client := clientJSON{ID: c.client.ID, File: c.file.Path, Snippet: c.snippet, Has: c.has, Applied: c.applied(),
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

func changesJSON(c target) (changes []changeJSON) {
	for _, e := range c.edits {
		change := changeJSON{File: e.file.Path, Remove: e.edit.Drop}
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
