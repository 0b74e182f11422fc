package mcpserver

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/home/skill"
	"github.com/sandpiper-mcp/sandpiper/internal/home/skill/folder"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver/wire"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
)

// skillsPage limits one page of skills: each of their files is redacted for its digest.
const skillsPage = 50

const markdownType = "text/markdown"

// skillReader serves skills as folders.
type skillReader struct{ *Server }

// skillFolders returns the handlers that list skills as folders (SEP-2640). Their files are
// resources: skill://NAME/SKILL.md and skill://NAME/scripts/….
func (s skillReader) skillFolders() *wire.Skills {
	return &wire.Skills{List: s.listSkillFolders, Get: s.getSkillFolder}
}

func (s skillReader) listSkillFolders(ctx context.Context, caller, cursor string) (redact.Redacted, error) {
	return resourceReader(s).visit(ctx, caller, func(home *home.Home, out *redact.Gate) (any, error) {
		after, err := base64.RawURLEncoding.DecodeString(cursor)
		if err != nil {
			return nil, fault.New(fault.Invalid, "the cursor %.80q is invalid: use the nextCursor of the previous page", cursor)
		}
		all, err := home.Skills.List(ctx)
		if err != nil {
			return nil, err
		}
		start, found := slices.BinarySearchFunc(all, string(after), func(m skill.Metadata, name string) int { return strings.Compare(m.Name, name) })
		if found {
			start++
		}
		page := wire.SkillListing{Skills: []wire.Skill{}}
		for i, m := range all[start:] {
			if i == skillsPage {
				page.Next = base64.RawURLEncoding.EncodeToString([]byte(all[start+i-1].Name))
				break
			}
			entry, err := skillEntry(ctx, home, out, m.Name)
			if fault.KindOf(err) == fault.NotFound {
				continue // deleted in between
			}
			if err != nil {
				return nil, err
			}
			page.Skills = append(page.Skills, entry)
		}
		return page, nil
	})
}

func (s skillReader) getSkillFolder(ctx context.Context, caller, uri string) (redact.Redacted, error) {
	return resourceReader(s).visit(ctx, caller, func(home *home.Home, out *redact.Gate) (any, error) {
		rest, ok := strings.CutPrefix(uri, skillScheme)
		dir, ok2 := strings.CutSuffix(rest, "/"+folder.Manifest)
		if !ok || !ok2 {
			return nil, fault.New(fault.Invalid, "%s is not the URI of a skill: use %sNAME/%s", fault.Quoted(uri), skillScheme, folder.Manifest)
		}
		name, err := skillOf(ctx, home, dir)
		if err != nil {
			return nil, err
		}
		return skillEntry(ctx, home, out, name)
	})
}

// skillEntry describes a skill. Digests and sizes are those of the redacted files, which are
// what a client reads.
func skillEntry(ctx context.Context, home *home.Home, out *redact.Gate, name string) (wire.Skill, error) {
	found, err := home.Skills.Find(ctx, name, 0)
	if err != nil {
		return wire.Skill{}, err
	}
	f := folder.Of(found)
	base := skillScheme + f.Frontmatter.Name + "/"
	entry := wire.Skill{URI: base + folder.Manifest, Frontmatter: f.Frontmatter}
	for _, file := range f.Files {
		redacted, err := out.Redact(ctx, skillContent(base+file.Path, file))
		if err != nil {
			return wire.Skill{}, err
		}
		text, _, _, err := redacted.Content()
		if err != nil {
			return wire.Skill{}, err
		}
		var read wire.Content
		if err := json.Unmarshal([]byte(text), &read); err != nil {
			return wire.Skill{}, err
		}
		sum := sha256.Sum256([]byte(*read.Text))
		entry.Resources = append(entry.Resources, wire.SkillFile{URI: base + file.Path, Digest: "sha256:" + hex.EncodeToString(sum[:]), Size: len(*read.Text)})
	}
	return entry, nil
}

func skillContent(uri string, file folder.File) wire.Content {
	mime := pythonType
	if file.Path == folder.Manifest {
		mime = markdownType
	}
	return wire.Content{URI: uri, MIME: mime, Text: &file.Content}
}

// readSkillFile reads a file of a skill's folder.
func readSkillFile(ctx context.Context, home *home.Home, uri string, a address) (wire.Content, error) {
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
			return skillContent(uri, file), nil
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

// moduleOf returns the path of the module of a skill in the workspace.
func moduleOf(ctx context.Context, home *home.Home, dir string) (string, error) {
	name, err := skillOf(ctx, home, dir)
	return "skills/" + name + ".py", err
}
