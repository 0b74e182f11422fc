package wire

import (
	"context"
	"encoding/json"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
)

// skillsExtension is the identifier of the extension that lists skills (SEP-2640).
const skillsExtension = "io.modelcontextprotocol/skills"

// Skills lists the skills whose files are Resources.
type Skills struct {
	// List returns a redacted SkillListing. The cursor is empty or the Next of the previous page.
	List func(ctx context.Context, caller, cursor string) (redact.Redacted, error)
	// Get returns a redacted Skill: the one with this URI.
	Get func(ctx context.Context, caller, uri string) (redact.Redacted, error)
}

// SkillListing is one page of skills.
type SkillListing struct {
	Skills []Skill `json:"skills"`
	Next   string  `json:"nextCursor,omitempty"` // empty on the last page
}

// Skill describes a skill and its files.
type Skill struct {
	URI         string      `json:"uri"`         // of its SKILL.md
	Frontmatter any         `json:"frontmatter"` // of that file
	Resources   []SkillFile `json:"resources"`
}

// SkillFile is a file of a skill, as a client reads it.
type SkillFile struct {
	URI    string `json:"uri"`
	Digest string `json:"digest"` // sha256: and 64 hexadecimal digits
	Size   int    `json:"size"`   // in bytes
}

// The requests and results of the extension.
type (
	listSkillsParams struct {
		mcp.ParamsBase
		Cursor string `json:"cursor,omitempty"`
	}
	getSkillParams struct {
		mcp.ParamsBase
		URI string `json:"uri"`
	}
	skillsResult struct {
		mcp.ResultBase
		mcp.Cacheable
		ResultType string          `json:"resultType,omitempty"`
		Skills     json.RawMessage `json:"skills,omitempty"`
		Next       string          `json:"nextCursor,omitempty"`
		Skill      json.RawMessage `json:"skill,omitempty"`
	}
)

// skillMethods answers requests for skills.
type skillMethods struct{ *subscriptions }

// serveSkills serves the methods of the extension. The SDK decodes custom methods for a handler
// without the request; the middleware answers before it, because it needs the caller.
func (o skillMethods) serveSkills(k *Skills, server *mcp.Server) error {
	err := mcp.AddReceivingCustomMethod(server, "skills/list", func(context.Context, *mcp.ServerSession, *listSkillsParams) (*skillsResult, error) {
		return nil, errInternal
	})
	if err != nil {
		return err
	}
	err = mcp.AddReceivingCustomMethod(server, "skills/get", func(context.Context, *mcp.ServerSession, *getSkillParams) (*skillsResult, error) {
		return nil, errInternal
	})
	server.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (_ mcp.Result, err error) {
			defer o.contain(method, &err)
			switch r := req.(type) {
			case *mcp.ServerRequest[*listSkillsParams]:
				return o.listSkills(ctx, k, r)
			case *mcp.ServerRequest[*getSkillParams]:
				return o.getSkill(ctx, k, r)
			}
			return next(ctx, method, req)
		}
	})
	return err
}

func (o skillMethods) listSkills(ctx context.Context, k *Skills, r *mcp.ServerRequest[*listSkillsParams]) (mcp.Result, error) {
	cursor := ""
	if r.Params != nil {
		cursor = r.Params.Cursor
	}
	redacted, err := k.List(ctx, o.authn.callerOf(ctx, r), cursor)
	if err != nil {
		return nil, o.refuse(r, "", err)
	}
	listing, err := open[struct {
		Skills json.RawMessage `json:"skills"`
		Next   string          `json:"nextCursor"`
	}](redacted)
	if err != nil {
		return nil, o.refuse(r, "", err)
	}
	return skillsAnswer(r.ProtocolVersion(), skillsResult{Skills: listing.Skills, Next: listing.Next}), nil
}

func (o skillMethods) getSkill(ctx context.Context, k *Skills, r *mcp.ServerRequest[*getSkillParams]) (mcp.Result, error) {
	uri := ""
	if r.Params != nil {
		uri = r.Params.URI
	}
	redacted, err := k.Get(ctx, o.authn.callerOf(ctx, r), uri)
	if err != nil {
		return nil, o.refuseParams(r, uri, err)
	}
	entry, err := open[json.RawMessage](redacted)
	if err != nil {
		return nil, o.refuse(r, uri, err)
	}
	return skillsAnswer(r.ProtocolVersion(), skillsResult{Skill: *entry}), nil
}

func skillsAnswer(version string, res skillsResult) mcp.Result {
	res.CacheScope = private
	if version >= stateless {
		res.ResultType = "complete"
	}
	return &res
}
