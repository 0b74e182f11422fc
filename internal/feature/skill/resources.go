package skill

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/skill/folder"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/home/skill"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver/builtin"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver/wire"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
)

// scheme is that of the URIs, followed by a skill's name.
const scheme = "skill://"

// pageLength limits one page of folders: each of their files is redacted for its digest.
const pageLength = 50

const (
	pythonType   = "text/x-python"
	markdownType = "text/markdown"
)

// Resources returns the resources of the server: a skill is its Python, skill://NAME, and a folder
// (SEP-2640), whose files are skill://NAME/SKILL.md and skill://NAME/scripts/….
func Resources() builtin.Resources {
	return builtin.Resources{
		Scheme:   scheme,
		Template: wire.Template{URI: scheme + "{name}", Name: "skill", Description: "The Python of a saved skill", MIME: pythonType},
		Names:    names,
		List:     listResources,
		Read:     readResource,
		File:     moduleOf,
		Extension: builtin.Extension{
			Name:    "io.modelcontextprotocol/skills",
			Methods: map[string]builtin.Method{"skills/list": listFolders, "skills/get": getFolder},
		},
	}
}

// address is a parsed URI.
type address struct {
	skill  string // its name; empty for a file of a folder
	folder string // name of a folder
	path   string // of a file in it
}

func parse(uri string) (address, error) {
	name := strings.TrimSuffix(strings.TrimPrefix(uri, scheme), "/")
	if dir, path, ok := strings.Cut(name, "/"); ok {
		return address{folder: dir, path: path}, nil
	}
	return address{skill: name}, skill.CheckName(name)
}

func listResources(ctx context.Context, home *home.Home) (all []builtin.Resource, err error) {
	skills, err := home.Skills.List(ctx)
	for _, m := range skills {
		front := folder.NewFrontmatter(m)
		manifest := wire.Resource{URI: scheme + front.Name + "/" + folder.Manifest, Name: front.Name, Description: front.Description,
			MIME: markdownType}
		code := wire.Resource{URI: scheme + m.Name, Name: m.Name, Description: m.Description, MIME: pythonType}
		all = append(all, builtin.Resource{Resource: manifest}, builtin.Resource{Resource: code, File: module(m.Name)})
	}
	return all, err
}

func readResource(ctx context.Context, home *home.Home, uri string) (wire.Content, error) {
	a, err := parse(uri)
	if err != nil {
		return wire.Content{}, err
	}
	if a.skill == "" {
		return readFile(ctx, home, uri, a)
	}
	found, err := home.Skills.Find(ctx, a.skill, 0)
	return wire.Content{URI: uri, MIME: pythonType, Text: &found.Code}, err
}

// module returns the path of the module of a skill in the workspace.
func module(name string) string { return "skills/" + name + ".py" }

// moduleOf returns the path of the module of the skill of a resource, "" if there is no such folder.
func moduleOf(ctx context.Context, home *home.Home, uri string) (string, error) {
	a, err := parse(uri)
	if err != nil {
		return "", err
	}
	if a.skill == "" {
		if a.skill, err = skillOf(ctx, home, a.folder); fault.KindOf(err) == fault.NotFound {
			return "", nil
		}
	}
	return module(a.skill), err
}

// listing is one page of folders.
type listing struct {
	Skills []entry `json:"skills"`
	Next   string  `json:"nextCursor,omitempty"` // empty on the last page
}

// entry describes a folder and its files.
type entry struct {
	URI         string      `json:"uri"`         // of its SKILL.md
	Frontmatter any         `json:"frontmatter"` // of that file
	Resources   []entryFile `json:"resources"`
}

// entryFile is a file of a folder, as a client reads it.
type entryFile struct {
	URI    string `json:"uri"`
	Digest string `json:"digest"` // sha256: and 64 hexadecimal digits
	Size   int    `json:"size"`   // in bytes
}

func listFolders(ctx context.Context, home *home.Home, out *redact.Gate, p wire.ExtensionParams) (any, error) {
	after, err := base64.RawURLEncoding.DecodeString(p.Cursor)
	if err != nil {
		return nil, fault.New(fault.Invalid, "the cursor %.80q is invalid: use the nextCursor of the previous page", p.Cursor)
	}
	all, err := home.Skills.List(ctx)
	if err != nil {
		return nil, err
	}
	start, found := slices.BinarySearchFunc(all, string(after),
		func(m skill.Metadata, name string) int { return strings.Compare(m.Name, name) })
	if found {
		start++
	}
	page := listing{Skills: []entry{}}
	for i, m := range all[start:] {
		if i == pageLength {
			page.Next = base64.RawURLEncoding.EncodeToString([]byte(all[start+i-1].Name))
			break
		}
		e, err := describe(ctx, home, out, m.Name)
		if fault.KindOf(err) == fault.NotFound {
			continue // deleted in between
		}
		if err != nil {
			return nil, err
		}
		page.Skills = append(page.Skills, e)
	}
	return page, nil
}

func getFolder(ctx context.Context, home *home.Home, out *redact.Gate, p wire.ExtensionParams) (any, error) {
	rest, ok := strings.CutPrefix(p.URI, scheme)
	dir, ok2 := strings.CutSuffix(rest, "/"+folder.Manifest)
	if !ok || !ok2 {
		return nil, fault.New(fault.Invalid, "%s is not the URI of a skill: use %sNAME/%s", fault.Quoted(p.URI), scheme, folder.Manifest)
	}
	name, err := skillOf(ctx, home, dir)
	if err != nil {
		return nil, err
	}
	e, err := describe(ctx, home, out, name)
	return map[string]entry{"skill": e}, err
}

// describe describes a skill. Digests and sizes are those of the redacted files, which are
// what a client reads.
func describe(ctx context.Context, home *home.Home, out *redact.Gate, name string) (entry, error) {
	found, err := home.Skills.Find(ctx, name, 0)
	if err != nil {
		return entry{}, err
	}
	f := folder.Of(found)
	base := scheme + f.Frontmatter.Name + "/"
	e := entry{URI: base + folder.Manifest, Frontmatter: f.Frontmatter}
	for _, file := range f.Files {
		redacted, err := out.Redact(ctx, content(base+file.Path, file))
		if err != nil {
			return entry{}, err
		}
		text, _, _, err := redacted.Content()
		if err != nil {
			return entry{}, err
		}
		var read wire.Content
		if err := json.Unmarshal([]byte(text), &read); err != nil {
			return entry{}, err
		}
		sum := sha256.Sum256([]byte(*read.Text))
		e.Resources = append(e.Resources, entryFile{URI: base + file.Path, Digest: "sha256:" + hex.EncodeToString(sum[:]),
			Size: len(*read.Text)})
	}
	return e, nil
}

func content(uri string, file folder.File) wire.Content {
	mime := pythonType
	if file.Path == folder.Manifest {
		mime = markdownType
	}
	return wire.Content{URI: uri, MIME: mime, Text: &file.Content}
}

// readFile reads a file of a skill's folder.
func readFile(ctx context.Context, home *home.Home, uri string, a address) (wire.Content, error) {
	name, err := skillOf(ctx, home, a.folder)
	if err != nil {
		return wire.Content{}, err
	}
	found, err := home.Skills.Find(ctx, name, 0)
	if err != nil {
		return wire.Content{}, err
	}
	for _, file := range folder.Of(found).Files {
		if file.Path == a.path {
			return content(uri, file), nil
		}
	}
	return wire.Content{}, fault.New(fault.NotFound, "skill %q has no file %s", a.folder, fault.Quoted(a.path))
}

// skillOf returns the name of the skill whose folder has a name.
func skillOf(ctx context.Context, home *home.Home, dir string) (string, error) {
	if name := strings.ReplaceAll(dir, "-", "_"); skill.CheckName(name) == nil && folder.Name(name) == dir {
		if _, err := home.Skills.Find(ctx, name, 0); fault.KindOf(err) != fault.NotFound {
			return name, err
		}
	}
	all, err := home.Skills.List(ctx)
	if err != nil {
		return "", err
	}
	for _, m := range all {
		if folder.Name(m.Name) == dir {
			return m.Name, nil
		}
	}
	return "", fault.New(fault.NotFound, "there is no skill %s", fault.Quoted(dir))
}
