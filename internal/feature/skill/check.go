package skill

import (
	"context"

	"github.com/sandpiper-mcp/sandpiper/internal/execution/pycode"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/skills"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/skill/skilltest"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/home/skill"
)

// check rejects a skill whose code does not compile, or that cannot be saved for another
// reason. It returns the skill with its tools, and with tokens in string literals and comments
// of the code replaced by their values, escaped as needed. It waits until the servers of these
// tools have listed them or have failed to, and ends with ctx.
func check(
	ctx context.Context, c pycode.Checker, h *home.Home, subset string, d skill.Draft, tokens map[string]string,
) (skill.Draft, error) {
	if err := d.Check(); err != nil {
		return d, err
	}
	checked, err := c.Compile(ctx, h, d.Code, tokens)
	if err != nil {
		return d, err
	}
	d.Code = checked.Source
	if c.Tools != nil {
		v := c.Tools.For(h.ID(), subset)
		v.Await(ctx, pycode.Servers(checked.Tools))
		d.Tools = skills.Resolve(v.Now(), checked.Tools)
	}
	return d, d.Check()
}

// remove deletes a skill with all its versions and tests.
func remove(ctx context.Context, h *home.Home, name string) error {
	if _, err := skilltest.Open(h).Delete(ctx, name); err != nil {
		return err
	}
	return h.Skills.Delete(ctx, name)
}
