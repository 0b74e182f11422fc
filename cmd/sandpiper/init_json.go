package main

import (
	"slices"

	"github.com/sandpiper-mcp/sandpiper/internal/clientconfig"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// initJSON is the output of init with --json.
type initJSON struct {
	Success   bool               `json:"success"`
	Config    string             `json:"config"`
	Written   bool               `json:"written"`
	Lines     string             `json:"would_write,omitempty"` // to the configuration, in a dry run
	Servers   []initServerJSON   `json:"servers"`
	Skipped   []initSkippedJSON  `json:"left_out"`
	Problems  []initProblemJSON  `json:"problems"`
	Variables []initVariableJSON `json:"variables"`
	Clients   []initClientJSON   `json:"clients"`
}

type initServerJSON struct {
	Name    string            `json:"name"`
	Status  string            `json:"status"`
	From    []initOriginJSON  `json:"from"`
	Command string            `json:"command,omitempty"`
	Args    []string          `json:"args,omitempty"`
	Env     map[string]string `json:"env,omitempty"`
	URL     string            `json:"url,omitempty"`
	Headers map[string]string `json:"headers,omitempty"`
	Notes   []string          `json:"notes,omitempty"`
}

type initSkippedJSON struct {
	initOriginJSON
	Reason string `json:"why"`
}

type initProblemJSON struct {
	File  string `json:"file"`
	Line  int    `json:"line,omitempty"`
	Error string `json:"error"`
}

type initVariableJSON struct {
	Name    string   `json:"name"`
	Servers []string `json:"servers"`
	About   string   `json:"about,omitempty"`
	From    string   `json:"value_in,omitempty"`
	Set     bool     `json:"set"`
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

type initOriginJSON struct {
	Client  string `json:"client"`
	File    string `json:"file"`
	Project string `json:"project,omitempty"`
	Name    string `json:"name"`
}

func originJSON(o clientconfig.Origin) initOriginJSON {
	return initOriginJSON{o.File.Client.ID, o.File.Path, o.Project, o.Name}
}

func (p *initPlan) json() initJSON {
	out := initJSON{true, p.path, len(p.added) > 0 && !p.options.dry, "", []initServerJSON{}, []initSkippedJSON{}, []initProblemJSON{}, []initVariableJSON{}, []initClientJSON{}}
	if p.options.dry && len(p.added) > 0 {
		out.Lines = addedLines(p.old, p.text)
	}
	for i, s := range p.found.Servers {
		server := initServerJSON{s.Name, p.status[i], nil, s.Command, s.Args, s.Env, s.URL, s.Headers, s.Notes}
		for _, o := range s.From {
			server.From = append(server.From, originJSON(o))
		}
		out.Servers = append(out.Servers, server)
	}
	for _, s := range p.found.Skipped {
		out.Skipped = append(out.Skipped, initSkippedJSON{originJSON(s.From), s.Reason})
	}
	for _, x := range p.found.Problems {
		out.Problems = append(out.Problems, initProblemJSON{x.File.Path, x.Line, x.Message})
	}
	for _, v := range p.found.Variables {
		out.Variables = append(out.Variables, initVariableJSON{v.Name, v.Servers, v.Description, v.File, v.Set})
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
