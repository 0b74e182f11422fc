package mcpserver

import (
	"context"
	"encoding/base64"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/sandpiper-mcp/sandpiper/internal/access"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/home/skill"
	"github.com/sandpiper-mcp/sandpiper/internal/home/skill/folder"
	"github.com/sandpiper-mcp/sandpiper/internal/home/workspace"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver/wire"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect/encoded"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
)

// URI schemes, followed by a skill's name or a file's path with escaped elements.
const (
	skillScheme = "skill://"
	fileScheme  = "workspace://"
)

const (
	// maxResource limits the size of a resource: a client puts all of it into a
	// conversation or keeps it in memory.
	maxResource = 4 << 20
	// maxResources limits one page of the list.
	maxResources = 100
)

// URI templates of resources.
const (
	skillTemplate = skillScheme + "{name}"
	fileTemplate  = fileScheme + "{+path}"
)

const pythonType = "text/x-python"

// resourceReader serves the resources of tenants.
type resourceReader struct{ *Server }

// resources returns the handlers of resources: the tenant's skills and files.
func (s resourceReader) resources() *wire.Resources {
	return &wire.Resources{
		Scope: string(access.Files),
		Templates: []wire.Template{
			{URI: skillTemplate, Name: "skill", Description: "The Python of a saved skill", MIME: pythonType},
			{URI: fileTemplate, Name: "file", Description: "A file in /workspace"},
		},
		List: s.listResources, Read: s.readResource, Versions: s.resourceVersions,
	}
}

// visit opens the caller's home while f runs. The result of f and its error are
// redacted.
func (s resourceReader) visit(ctx context.Context, caller string, f func(*home.Home, *redact.Gate) (any, error)) (redact.Redacted, error) {
	return s.visitWith(ctx, caller, redact.ModelInput{}, f)
}

// visitWith is visit for a call with text written by a model.
func (s resourceReader) visitWith(ctx context.Context, caller string, wrote redact.ModelInput, f func(*home.Home, *redact.Gate) (any, error)) (redact.Redacted, error) {
	home, err := s.acquire(ctx, caller)
	if err != nil {
		return redact.Redacted{}, refused(ctx, s.gateWithoutTenant(), err)
	}
	out, kept := s.cfg.Privacy.For(redact.Owner{Tenant: home.ID(), Vault: home.Vault, ModelInput: wrote}), context.WithoutCancel(ctx)
	v, err := f(home, out)
	var redacted redact.Redacted
	if err == nil {
		m, ok := v.(redact.Message)
		if !ok {
			m.Body = v
		}
		m.Protocol = true
		redacted, err = out.Redact(kept, m)
	}
	if err != nil {
		err = refused(kept, out, err)
	}
	// Acknowledge writes only after Release succeeded.
	if e := home.Release(kept); e != nil && err == nil {
		err = refused(kept, s.gateWithoutTenant(), e)
	}
	return redacted, err
}

func (s resourceReader) inHome(ctx context.Context, caller string, f func(*home.Home) (any, error)) (any, error) {
	home, err := s.acquire(ctx, caller)
	if err != nil {
		return nil, err
	}
	defer home.Release(context.WithoutCancel(ctx)) // no writes to acknowledge
	return f(home)
}

// refused converts err to an error for the client.
func refused(ctx context.Context, out *redact.Gate, err error) error {
	kind := fault.KindOf(err)
	if kind == fault.Internal {
		return err
	}
	reason, sealErr := out.Redact(ctx, fault.Sentence(err))
	if sealErr != nil {
		return sealErr
	}
	return &wire.Refused{Missing: kind == fault.NotFound, Reason: reason}
}

// address is a parsed URI.
type address struct {
	skill  string // its name; empty for a file
	file   string // its path in the workspace; also set for the module of a skill
	folder string // name of a skill's folder; empty for others
	path   string // of a file in it
}

func parseAddress(uri string) (address, error) {
	if rest, ok := strings.CutPrefix(uri, skillScheme); ok {
		name := strings.TrimSuffix(rest, "/")
		if dir, path, ok := strings.Cut(name, "/"); ok {
			return address{folder: dir, path: path}, nil
		}
		return address{skill: name, file: "skills/" + name + ".py"}, skill.CheckName(name)
	}
	if rest, ok := strings.CutPrefix(uri, fileScheme); ok {
		name, err := url.PathUnescape(rest)
		if err != nil {
			return address{}, fault.New(fault.Invalid, "%s is not a URI: %% must be followed by two hexadecimal digits", fault.Quoted(uri))
		}
		name = strings.TrimPrefix(name, "/")
		return address{file: name}, workspace.CheckName(name)
	}
	return address{}, fault.New(fault.NotFound, "there is no resource %s: resources are %sNAME and %sPATH", fault.Quoted(uri), skillScheme, fileScheme)
}

// fileURI escapes all URI delimiters in a path.
func fileURI(path string) string {
	elements := strings.Split(path, "/")
	for i, e := range elements {
		elements[i] = strings.ReplaceAll(url.QueryEscape(e), "+", "%20")
	}
	return fileScheme + strings.Join(elements, "/")
}

func (s resourceReader) readResource(ctx context.Context, caller, uri string) (redact.Redacted, error) {
	ctx, release := withShare(ctx, s.cfg.Memory, caller)
	defer release()
	return s.visit(ctx, caller, func(home *home.Home, out *redact.Gate) (any, error) {
		uri, err := valued(ctx, out.Restorer().Name, redact.ToFile, uri)
		if err != nil {
			return nil, err
		}
		a, err := parseAddress(uri)
		if err != nil {
			return nil, err
		}
		if a.folder != "" {
			return readSkillFile(ctx, home, uri, a)
		}
		if a.skill != "" {
			found, err := home.Skills.Find(ctx, a.skill, 0)
			return wire.Content{URI: uri, MIME: pythonType, Text: &found.Code}, err
		}
		return readFile(ctx, home, out, uri, a.file)
	})
}

// valued returns a URI with tokens replaced by values.
func valued(ctx context.Context, inward func(ctx context.Context, to, text string) (string, error), to, uri string) (string, error) {
	plain := redact.UnescapeTokens(uri)
	value, err := inward(ctx, to, plain)
	if value == plain {
		return uri, err
	}
	return value, err
}

func readFile(ctx context.Context, home *home.Home, out *redact.Gate, uri, name string) (wire.Content, error) {
	if err := holdFile(ctx, home, name, maxResource); err != nil {
		return wire.Content{}, err
	}
	p, err := home.Workspace.Read(ctx, name, 0, maxResource)
	if err != nil {
		return wire.Content{}, err
	}
	if p.Size > maxResource {
		return wire.Content{}, fault.New(fault.Exhausted, "%s has %d bytes, and a resource is read whole, up to %d", fault.Quoted(name), p.Size, maxResource).
			WithHint("read_workspace_file reads it in pages, and code in execute_code all of it")
	}
	c := wire.Content{URI: uri, MIME: contentType(name, p.Content)}
	u, isWide := encoded.UnicodeOf(p.Content)
	switch {
	case isWide && !hidesPrivate(out, p):
		c.Text = new(u.Decode(p.Content))
	case utf8.Valid(p.Content):
		c.Text = new(string(p.Content))
	default:
		c.Blob = p.Content
	}
	return c, nil
}

// resourceVersions uses files only: a skill has a file too.
func (s resourceReader) resourceVersions(ctx context.Context, caller string, uris []string) ([]string, error) {
	versions := make([]string, len(uris))
	_, err := s.inHome(ctx, caller, func(home *home.Home) (any, error) {
		for i, uri := range uris {
			uri, err := valued(ctx, s.cfg.Privacy.For(redact.Owner{Tenant: home.ID(), Vault: home.Vault}).Restorer().Name, redact.ToFile, uri)
			if err != nil {
				return nil, err
			}
			a, err := parseAddress(uri)
			if err != nil {
				return nil, err
			}
			if a.folder != "" {
				if a.file, err = moduleOf(ctx, home, a.folder); fault.KindOf(err) == fault.NotFound {
					continue
				} else if err != nil {
					return nil, err
				}
			}
			info, err := home.Workspace.Stat(ctx, a.file)
			if k := fault.KindOf(err); err != nil && (k == fault.Internal || k == fault.Unavailable) {
				return nil, err // not a change of the file
			}
			versions[i] = info.Version
		}
		return nil, nil
	})
	if err != nil {
		return nil, refused(ctx, s.gateWithoutTenant(), err)
	}
	return versions, nil
}

func (s resourceReader) listResources(ctx context.Context, caller, cursor string) (redact.Redacted, error) {
	return s.visit(ctx, caller, func(home *home.Home, out *redact.Gate) (any, error) {
		cursor, err := out.Restorer().Name(ctx, redact.ToFile, cursor) // it contains a file name
		if err != nil {
			return nil, err
		}
		after, err := base64.RawURLEncoding.DecodeString(cursor)
		if err != nil {
			return nil, fault.New(fault.Invalid, "the cursor %.80q is invalid: use the nextCursor of the previous page", cursor)
		}
		all, err := allResources(ctx, home)
		if err != nil {
			return nil, err
		}
		return pageOf(ctx, home, all, escapedURI(string(after))), nil
	})
}

// allResources returns the resources of a home, sorted by URI.
func allResources(ctx context.Context, home *home.Home) ([]wire.Resource, error) {
	skills, err := home.Skills.List(ctx)
	if err != nil {
		return nil, err
	}
	files, err := home.Workspace.List(ctx, ".")
	if err != nil {
		return nil, err
	}
	all := make([]wire.Resource, 0, 2*len(skills)+len(files.Files))
	for _, m := range skills {
		front := folder.NewFrontmatter(m)
		all = append(all, wire.Resource{URI: skillScheme + front.Name + "/" + folder.Manifest, Name: front.Name, Description: front.Description, MIME: markdownType})
		all = append(all, wire.Resource{URI: skillScheme + m.Name, Name: m.Name, Description: m.Description, MIME: pythonType})
	}
	for _, name := range files.Files {
		// A name with the replacement character may not be UTF-8; such a file has
		// no URI.
		if !strings.ContainsRune(name, utf8.RuneError) {
			all = append(all, wire.Resource{URI: fileURI(name), Name: name, MIME: typeByName(name)})
		}
	}
	slices.SortFunc(all, func(a, b wire.Resource) int { return strings.Compare(a.URI, b.URI) })
	return all, nil
}

// pageOf returns the resources after a URI, which need not exist any more.
func pageOf(ctx context.Context, home *home.Home, all []wire.Resource, after string) wire.Listing {
	start, found := slices.BinarySearchFunc(all, after, func(r wire.Resource, uri string) int { return strings.Compare(r.URI, uri) })
	if found {
		start++
	}
	end := min(start+maxResources, len(all))
	l := wire.Listing{Resources: all[start:end]}
	for i := range l.Resources {
		r := &l.Resources[i]
		if a, err := parseAddress(r.URI); err == nil {
			info, _ := home.Workspace.Stat(ctx, a.file) // 0, unknown, if it was deleted
			r.Size = info.Size
		}
	}
	if end < len(all) {
		l.Next = base64.RawURLEncoding.EncodeToString([]byte(plainURI(all[end-1].URI)))
	}
	return l
}

// plainURI returns the URI of a file with its path as it is, in which names are found and redacted.
func plainURI(uri string) string {
	if plain, err := url.PathUnescape(uri); err == nil && strings.HasPrefix(uri, fileScheme) {
		return plain
	}
	return uri
}

// escapedURI is the reverse of plainURI.
func escapedURI(uri string) string {
	if path, ok := strings.CutPrefix(uri, fileScheme); ok {
		return fileURI(path)
	}
	return uri
}
