package main

import (
	"slices"

	"github.com/sandpiper-mcp/sandpiper/internal/clientconfig"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// initJSON is init in JSON.
type initJSON struct {
	Success   bool               `json:"success"`
	Config    string             `json:"config"`
	Written   bool               `json:"written"`
	Servers   []initServerJSON   `json:"servers"`
	Left      []initLeftJSON     `json:"left_out"`
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

type initLeftJSON struct {
	initOriginJSON
	Why string `json:"why"`
}

type initProblemJSON struct {
	File string `json:"file"`
	Line int    `json:"line,omitempty"`
	What string `json:"error"`
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
}

type initOriginJSON struct {
	Client  string `json:"client"`
	File    string `json:"file"`
	Project string `json:"project,omitempty"`
	Name    string `json:"name"`
}

func initFrom(o clientconfig.Origin) initOriginJSON {
	return initOriginJSON{o.File.Client.ID, o.File.Path, o.Project, o.Name}
}

func (p *initPlan) answer() initJSON {
	out := initJSON{true, p.path, len(p.fresh) > 0 && !p.options.dry, []initServerJSON{}, []initLeftJSON{}, []initProblemJSON{}, []initVariableJSON{}, []initClientJSON{}}
	for i, s := range p.found.Servers {
		one := initServerJSON{s.Name, p.status[i], nil, s.Command, s.Args, s.Env, s.URL, s.Headers, s.Notes}
		for _, o := range s.From {
			one.From = append(one.From, initFrom(o))
		}
		out.Servers = append(out.Servers, one)
	}
	for _, l := range p.found.Left {
		out.Left = append(out.Left, initLeftJSON{initFrom(l.From), l.Why})
	}
	for _, x := range p.found.Problems {
		out.Problems = append(out.Problems, initProblemJSON{x.File.Path, x.Line, x.What})
	}
	for _, v := range p.found.Variables {
		out.Variables = append(out.Variables, initVariableJSON{v.Name, v.Servers, v.What, v.From, v.Set})
	}
	for _, c := range p.clients {
		one := initClientJSON{ID: c.client.ID, File: c.file.Path, Snippet: c.snippet, Has: c.has,
			Backups: slices.DeleteFunc(slices.Clone(c.backups), func(b string) bool { return b == "" }),
			Applied: c.wanted && c.err == nil && len(c.writes) > 0 && !p.options.dry}
		if c.err != nil {
			out.Success = false
			one.Error, one.Hint = fault.Message(c.err), fault.Hint(c.err)
		}
		out.Clients = append(out.Clients, one)
	}
	return out
}
