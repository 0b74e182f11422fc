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
	"github.com/sandpiper-mcp/sandpiper/internal/home/workspace"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver/builtin"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver/wire"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect/encoded"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
)

// The scheme of files is followed by a path with escaped elements.
const (
	fileScheme   = "workspace://"
	fileTemplate = fileScheme + "{+path}"
)

const (
	// maxResource limits the size of a resource: a client puts all of it into a
	// conversation or keeps it in memory.
	maxResource = 4 << 20
	// maxResources limits one page of the list.
	maxResources = 100
)

const pythonType = "text/x-python"

// resourceReader serves the resources of tenants.
type resourceReader struct{ *Server }

// resources returns the handlers of resources: the tenant's files, and those of features.
func (s resourceReader) resources() *wire.Resources {
	var templates []wire.Template
	for _, r := range s.cfg.Resources {
		templates = append(templates, r.Template)
	}
	return &wire.Resources{
		Scope:     string(access.Files),
		Templates: append(templates, wire.Template{URI: fileTemplate, Name: "file", Description: "A file in /workspace"}),
		List:      s.listResources, Read: s.readResource, Versions: s.resourceVersions,
	}
}

// extensions returns the extensions of features.
func (s resourceReader) extensions() (all []wire.Extension) {
	for _, r := range s.cfg.Resources {
		if r.Extension.Methods == nil {
			continue
		}
		e := wire.Extension{Name: r.Extension.Name, Methods: map[string]wire.ExtensionMethod{}}
		for name, answer := range r.Extension.Methods {
			e.Methods[name] = func(ctx context.Context, caller string, p wire.ExtensionParams) (redact.Redacted, error) {
				return s.visit(ctx, caller, func(home *home.Home, out *redact.Gate) (any, error) { return answer(ctx, home, out, p) })
			}
		}
		all = append(all, e)
	}
	return all
}

// visit opens the caller's home while f runs. The result of f and its error are
// redacted.
func (s resourceReader) visit(ctx context.Context, caller string, f func(*home.Home, *redact.Gate) (any, error)) (redact.Redacted, error) {
	return s.visitWith(ctx, caller, redact.ModelInput{}, f)
}

// visitWith is visit for a call with text written by a model.
func (s resourceReader) visitWith(ctx context.Context, caller string, wrote redact.ModelInput,
	f func(*home.Home, *redact.Gate) (any, error)) (redact.Redacted, error) {
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

// find returns the resources of the scheme of a URI; nil means files.
func (s resourceReader) find(uri string) (*builtin.Resources, error) {
	forms := ""
	for i, r := range s.cfg.Resources {
		if strings.HasPrefix(uri, r.Scheme) {
			return &s.cfg.Resources[i], nil
		}
		forms += r.Scheme + "NAME and "
	}
	if strings.HasPrefix(uri, fileScheme) {
		return nil, nil
	}
	return nil, fault.New(fault.NotFound, "there is no resource %s: resources are %s%sPATH", fault.Quoted(uri), forms, fileScheme)
}

// fileOf returns the file in the workspace that changes with a resource.
func (s resourceReader) fileOf(ctx context.Context, h *home.Home, uri string) (string, error) {
	r, err := s.find(uri)
	switch {
	case err != nil:
		return "", err
	case r != nil:
		return r.File(ctx, h, uri)
	}
	return fileName(uri)
}

// fileName returns the path in the URI of a file.
func fileName(uri string) (string, error) {
	name, err := url.PathUnescape(strings.TrimPrefix(uri, fileScheme))
	if err != nil {
		return "", fault.New(fault.Invalid, "%s is not a URI: %% must be followed by two hexadecimal digits", fault.Quoted(uri))
	}
	name = strings.TrimPrefix(name, "/")
	return name, workspace.CheckName(name)
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
		r, err := s.find(uri)
		switch {
		case err != nil:
			return nil, err
		case r != nil:
			return r.Read(ctx, home, uri)
		}
		name, err := fileName(uri)
		if err != nil {
			return nil, err
		}
		return readFile(ctx, home, out, uri, name)
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
		return wire.Content{}, fault.New(fault.Exhausted, "%s has %d bytes, and a resource is read whole, up to %d", fault.Quoted(name),
			p.Size, maxResource).
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

// resourceVersions uses files only: each resource has one.
func (s resourceReader) resourceVersions(ctx context.Context, caller string, uris []string) ([]string, error) {
	versions := make([]string, len(uris))
	_, err := s.inHome(ctx, caller, func(home *home.Home) (any, error) {
		for i, uri := range uris {
			uri, err := valued(ctx, s.cfg.Privacy.For(redact.Owner{Tenant: home.ID(), Vault: home.Vault}).Restorer().Name, redact.ToFile,
				uri)
			if err != nil {
				return nil, err
			}
			file, err := s.fileOf(ctx, home, uri)
			if err != nil {
				return nil, err
			}
			if file == "" {
				continue // it does not exist now
			}
			info, err := home.Workspace.Stat(ctx, file)
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
		all, err := s.allResources(ctx, home)
		if err != nil {
			return nil, err
		}
		return pageOf(ctx, home, all, escapedURI(string(after))), nil
	})
}

// allResources returns the resources of a home, sorted by URI.
func (s resourceReader) allResources(ctx context.Context, home *home.Home) (all []builtin.Resource, err error) {
	for _, r := range s.cfg.Resources {
		listed, err := r.List(ctx, home)
		if err != nil {
			return nil, err
		}
		all = append(all, listed...)
	}
	files, err := home.Workspace.List(ctx, ".")
	if err != nil {
		return nil, err
	}
	for _, name := range files.Files {
		// A name with the replacement character may not be UTF-8; such a file has
		// no URI.
		if !strings.ContainsRune(name, utf8.RuneError) {
			all = append(all, builtin.Resource{Resource: wire.Resource{URI: fileURI(name), Name: name, MIME: typeByName(name)}, File: name})
		}
	}
	slices.SortFunc(all, func(a, b builtin.Resource) int { return strings.Compare(a.URI, b.URI) })
	return all, nil
}

// pageOf returns the resources after a URI, which need not exist any more.
func pageOf(ctx context.Context, home *home.Home, all []builtin.Resource, after string) wire.Listing {
	start, found := slices.BinarySearchFunc(all, after, func(r builtin.Resource, uri string) int { return strings.Compare(r.URI, uri) })
	if found {
		start++
	}
	end := min(start+maxResources, len(all))
	l := wire.Listing{Resources: make([]wire.Resource, 0, end-start)}
	for _, r := range all[start:end] {
		if r.File != "" {
			info, _ := home.Workspace.Stat(ctx, r.File) // 0, unknown, if it was deleted
			r.Size = info.Size
		}
		l.Resources = append(l.Resources, r.Resource)
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
