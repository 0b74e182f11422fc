package mcpserver

import (
	"context"

	"github.com/sandpiper-mcp/sandpiper/internal/home/skill"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver/wire"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
)

func (s *Server) skillTools() []builtin {
	name := param{name: "name", kind: text, required: true, names: skillNames}
	return []builtin{{
		name: "save_skill", profile: Standard,
		about: "Save or replace a function for `from skills import NAME`.",
		params: []param{
			{name: "name", kind: text, required: true, names: skillNames},
			{name: "code", kind: text, required: true},
			{name: "description", kind: text},
			{name: "tags", kind: texts},
		},
		hints: wire.Hints{Destructive: true, Idempotent: true},
		run:   s.saveSkill,
	}, {
		name: "load_skill", profile: Standard,
		about:  "A skill's code.",
		params: []param{name, {name: "version", kind: integer}},
		hints:  wire.Hints{ReadOnly: true},
		run:    s.loadSkill,
	}, {
		name: "list_skills", profile: Standard,
		about:  "Saved skills.",
		params: pageParams,
		hints:  wire.Hints{ReadOnly: true},
		run:    s.listSkills,
	}, {
		name: "search_skills", profile: Full,
		about: "Find saved skills by purpose and tags.",
		params: []param{
			{name: "query", kind: text},
			{name: "tags", kind: texts},
		},
		hints: wire.Hints{ReadOnly: true},
		run:   s.searchSkills,
	}, {
		name: "delete_skill", profile: Full,
		about:  "Delete a saved skill.",
		params: []param{name},
		hints:  wire.Hints{Destructive: true, Idempotent: true},
		run:    s.deleteSkill,
	}}
}

// saveSkill saves code that compiles; the compiler runs in a sandbox.
func (s *Server) saveSkill(ctx context.Context, c call) (redact.Message, error) {
	var args struct {
		Name, Code, Description string
		Tags                    []string
	}
	if err := c.read(&args); err != nil {
		return redact.Message{}, err
	}
	tokens, _, err := c.exit().Restorer().Lookup(ctx, args.Code) // code contains them in strings
	if err != nil {
		return redact.Message{}, err
	}
	if err := c.values(ctx, &args.Description); err != nil {
		return redact.Message{}, err
	}
	for i := range args.Tags {
		if err := c.values(ctx, &args.Tags[i]); err != nil {
			return redact.Message{}, err
		}
	}
	if before, err := c.home.Skills.Find(ctx, args.Name, 0); err == nil {
		if err := checkBack(c.exit(), "the code of skill "+args.Name, before.Code, args.Code); err != nil {
			return redact.Message{}, err
		}
	}
	d := skill.Draft{Name: args.Name, Code: args.Code, Description: args.Description, Tags: args.Tags}
	if d, err = s.cfg.Runner.Code.CheckSkill(ctx, c.home, c.Subset, d, tokens); err != nil {
		return redact.Message{}, err
	}
	if _, err := c.home.Skills.Save(ctx, d); err != nil {
		return redact.Message{}, err
	}
	return did("%s", skill.Saved(args.Name, args.Code))
}

func (s *Server) loadSkill(ctx context.Context, c call) (redact.Message, error) {
	var args struct {
		Name    string
		Version int
	}
	if err := c.read(&args); err != nil {
		return redact.Message{}, err
	}
	found, err := c.home.Skills.Find(ctx, args.Name, args.Version)
	if err != nil {
		return redact.Message{}, err
	}
	s.cfg.Runner.Skills(c.home, c.Subset).Mark(ctx, &found.Metadata)
	return redact.Message{Body: found}, nil
}

// skillList is the answer of list_skills and search_skills.
type skillList struct {
	Count  int              `json:"count"` // of all
	Skills []skill.Metadata `json:"skills"`
	Next   int              `json:"next_offset,omitempty"` // of the skills that follow; 0 if there are none
}

func (s *Server) listSkills(ctx context.Context, c call) (redact.Message, error) {
	offset, err := readOffset(c, "skills")
	if err != nil {
		return redact.Message{}, err
	}
	all, err := c.home.Skills.Search(ctx, skill.Query{})
	if err != nil {
		return redact.Message{}, err
	}
	list := skillList{Count: len(all)}
	list.Skills, list.Next = pageAt(all, offset)
	s.markStale(ctx, c, list.Skills)
	return redact.Message{Body: list}, nil
}

func (s *Server) searchSkills(ctx context.Context, c call) (redact.Message, error) {
	var args struct {
		Query string
		Tags  []string
	}
	if err := c.read(&args); err != nil {
		return redact.Message{}, err
	}
	if err := c.values(ctx, &args.Query); err != nil {
		return redact.Message{}, err
	}
	found, err := c.home.Skills.Search(ctx, skill.Query{Text: args.Query, Tags: args.Tags, Limit: 20})
	s.markStale(ctx, c, found)
	return redact.Message{Body: skillList{Count: len(found), Skills: found}}, err
}

func (s *Server) markStale(ctx context.Context, c call, skills []skill.Metadata) {
	for i := range skills {
		s.cfg.Runner.Skills(c.home, c.Subset).Mark(ctx, &skills[i])
	}
}

func (s *Server) deleteSkill(ctx context.Context, c call) (redact.Message, error) {
	var args struct{ Name string }
	if err := c.read(&args); err != nil {
		return redact.Message{}, err
	}
	if err := c.home.Skills.Delete(ctx, args.Name); err != nil {
		return redact.Message{}, err
	}
	return did("Skill '%s' deleted", args.Name)
}
