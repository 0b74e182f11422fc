package skill

import (
	"context"

	"github.com/sandpiper-mcp/sandpiper/internal/execution"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/home/skill"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver/builtin"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver/wire"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
	"github.com/sandpiper-mcp/sandpiper/internal/toolcall/lookup"
)

// names are the names of the skills.
var names builtin.Source = func(ctx context.Context, home *home.Home, _ *lookup.Finder) (names []string, err error) {
	all, err := home.Skills.List(ctx)
	for _, m := range all {
		names = append(names, m.Name)
	}
	return names, err
}

// tools are the tools for saved functions.
type tools struct{ runner *execution.Runner }

// Tools returns the tools of the server.
func Tools(runner *execution.Runner) []builtin.Tool { return tools{runner}.all() }

func (s tools) all() []builtin.Tool {
	name := builtin.Param{Name: "name", Kind: builtin.Text, Required: true, Source: names}
	return []builtin.Tool{{
		Name: "save_skill", Profile: builtin.Standard,
		Description: "Save or replace a function for `from skills import NAME`.",
		Params: []builtin.Param{
			{Name: "name", Kind: builtin.Text, Required: true, Source: names},
			{Name: "code", Kind: builtin.Text, Required: true},
			{Name: "description", Kind: builtin.Text},
			{Name: "tags", Kind: builtin.Texts},
		},
		Hints: wire.Hints{Destructive: true, Idempotent: true},
		Run:   builtin.Handle(s.save),
	}, {
		Name: "load_skill", Profile: builtin.Standard,
		Description: "A skill's code.",
		Params:      []builtin.Param{name, {Name: "version", Kind: builtin.Integer}},
		Hints:       wire.Hints{ReadOnly: true},
		Run:         builtin.Handle(s.load),
	}, {
		Name: "list_skills", Profile: builtin.Standard,
		Description: "Saved skills.",
		Params:      builtin.PageParams,
		Hints:       wire.Hints{ReadOnly: true},
		Run:         s.list,
	}, {
		Name: "search_skills", Profile: builtin.Full,
		Description: "Find saved skills by purpose and tags.",
		Params: []builtin.Param{
			{Name: "query", Kind: builtin.Text},
			{Name: "tags", Kind: builtin.Texts},
		},
		Hints: wire.Hints{ReadOnly: true},
		Run:   builtin.Handle(s.search),
	}, {
		Name: "delete_skill", Profile: builtin.Full,
		Description: "Delete a saved skill.",
		Params:      []builtin.Param{name},
		Hints:       wire.Hints{Destructive: true, Idempotent: true},
		Run:         builtin.Handle(deleteSkill),
	}}
}

// save saves code that compiles; the compiler runs in a sandbox.
func (s tools) save(ctx context.Context, c builtin.Call, args struct {
	Name, Code, Description string
	Tags                    []string
}) (redact.Message, error) {
	tokens, _, err := c.Gate().Restorer().Lookup(ctx, args.Code) // code contains them in strings
	if err != nil {
		return redact.Message{}, err
	}
	if err := c.Values(ctx, &args.Description); err != nil {
		return redact.Message{}, err
	}
	for i := range args.Tags {
		if err := c.Values(ctx, &args.Tags[i]); err != nil {
			return redact.Message{}, err
		}
	}
	if before, err := c.Home.Skills.Find(ctx, args.Name, 0); err == nil {
		if err := builtin.CheckBack(c.Gate(), "the code of skill "+args.Name, before.Code, args.Code); err != nil {
			return redact.Message{}, err
		}
	}
	d := skill.Draft{Name: args.Name, Code: args.Code, Description: args.Description, Tags: args.Tags}
	if d, err = check(ctx, s.runner.Code, c.Home, c.Subset, d, tokens); err != nil {
		return redact.Message{}, err
	}
	if _, err := c.Home.Skills.Save(ctx, d); err != nil {
		return redact.Message{}, err
	}
	return builtin.Did("%s", skill.Saved(args.Name, args.Code))
}

func (s tools) load(ctx context.Context, c builtin.Call, args struct {
	Name    string
	Version int
}) (redact.Message, error) {
	found, err := c.Home.Skills.Find(ctx, args.Name, args.Version)
	if err != nil {
		return redact.Message{}, err
	}
	s.runner.Skills(c.Home, c.Subset).Mark(ctx, &found.Metadata)
	return redact.Message{Body: found}, nil
}

// skillList is the answer of list_skills and search_skills.
type skillList struct {
	Count  int              `json:"count"` // of all
	Skills []skill.Metadata `json:"skills"`
	Next   int              `json:"next_offset,omitempty"` // of the skills that follow; 0 if there are none
}

func (s tools) list(ctx context.Context, c builtin.Call) (redact.Message, error) {
	offset, err := builtin.ReadOffset(c, "skills")
	if err != nil {
		return redact.Message{}, err
	}
	all, err := c.Home.Skills.Search(ctx, skill.Query{})
	if err != nil {
		return redact.Message{}, err
	}
	answer := skillList{Count: len(all)}
	answer.Skills, answer.Next = builtin.PageAt(all, offset)
	s.markStale(ctx, c, answer.Skills)
	return redact.Message{Body: answer}, nil
}

func (s tools) search(ctx context.Context, c builtin.Call, args struct {
	Query string
	Tags  []string
}) (redact.Message, error) {
	if err := c.Values(ctx, &args.Query); err != nil {
		return redact.Message{}, err
	}
	found, err := c.Home.Skills.Search(ctx, skill.Query{Text: args.Query, Tags: args.Tags, Limit: 20})
	s.markStale(ctx, c, found)
	return redact.Message{Body: skillList{Count: len(found), Skills: found}}, err
}

func (s tools) markStale(ctx context.Context, c builtin.Call, skills []skill.Metadata) {
	for i := range skills {
		s.runner.Skills(c.Home, c.Subset).Mark(ctx, &skills[i])
	}
}

func deleteSkill(ctx context.Context, c builtin.Call, args struct{ Name string }) (redact.Message, error) {
	if err := remove(ctx, c.Home, args.Name); err != nil {
		return redact.Message{}, err
	}
	return builtin.Did("Skill '%s' deleted", args.Name)
}
