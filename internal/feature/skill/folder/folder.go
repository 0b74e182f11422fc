// Package folder converts skills to and from folders of the Agent Skills format
// (https://agentskills.io/specification): a SKILL.md with YAML front matter and instructions, and
// Python in scripts/.
//
// A name of that format has lower-case letters, digits and hyphens; ours are identifiers. Of
// returns a folder whose metadata has our name, so that Read returns the same skill. Folders that
// others wrote are content from outside: Read checks them, and callers treat their texts as data.
package folder

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home/skill"
)

// Manifest is the name of the file with the front matter.
const Manifest = "SKILL.md"

// scripts is the directory of the code.
const scripts = "scripts"

// maxDescription and maxName are limits of the format, in characters.
const (
	maxDescription = 1024
	maxName        = 64
)

// Keys of Frontmatter.Metadata.
const (
	keyName    = "sandpiper-name"
	keyVersion = "version"
	keyTags    = "tags"
)

// Folder is a skill as a folder.
type Folder struct {
	Frontmatter Frontmatter
	Files       []File // the Manifest first
}

// Frontmatter is the front matter of the Manifest.
type Frontmatter struct {
	Name        string            `json:"name"`
	Description string            `json:"description"`
	Metadata    map[string]string `json:"metadata,omitempty"`
}

// File is a file of a folder.
type File struct {
	Path    string // with slashes, relative to the folder
	Content string
}

var (
	simple    = regexp.MustCompile(`^[a-z][a-z0-9]*(_[a-z0-9]+)*$`)
	nameForm  = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)
	otherRune = regexp.MustCompile(`[^a-z0-9]+`)
)

// Name returns the name of a skill in the format. Different skills have different names.
func Name(name string) string {
	if simple.MatchString(name) && len(name) <= maxName-9 {
		return strings.ReplaceAll(name, "_", "-")
	}
	sum := sha256.Sum256([]byte(name))
	short := strings.Trim(otherRune.ReplaceAllString(strings.ToLower(name), "-"), "-")
	return strings.Trim(strings.TrimRight(short[:min(len(short), maxName-9)], "-")+"-"+hex.EncodeToString(sum[:4]), "-")
}

// NewFrontmatter returns the front matter of a skill.
func NewFrontmatter(m skill.Metadata) Frontmatter {
	f := Frontmatter{Name: Name(m.Name), Description: describe(m), Metadata: map[string]string{
		keyName: m.Name, keyVersion: strconv.Itoa(m.Version),
	}}
	if len(m.Tags) > 0 {
		f.Metadata[keyTags] = joinTags(m.Tags)
	}
	return f
}

// Of returns the folder of a skill.
func Of(s skill.Skill) Folder {
	f := Folder{Frontmatter: NewFrontmatter(s.Metadata)}
	body := s.Instructions
	if body == "" {
		body = instructions(f.Frontmatter, s)
	}
	f.Files = []File{{Manifest, f.Frontmatter.String() + body}, {scripts + "/" + s.Name + ".py", s.Code}}
	return f
}

// describe returns the description of a skill within the limit of the format, which requires one.
func describe(m skill.Metadata) string {
	text := strings.Join(strings.Fields(m.Description), " ")
	if text == "" {
		return "Python module " + m.Name
	}
	if runes := []rune(text); len(runes) > maxDescription {
		return string(runes[:maxDescription-1]) + "…"
	}
	return text
}

func instructions(f Frontmatter, s skill.Skill) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\n%s\n\n", f.Name, cmp.Or(strings.TrimSpace(s.Metadata.Description), f.Description))
	fmt.Fprintf(&b, "The code is `%s/%s.py`, a Python module. In Sandpiper, import it with `from skills import %[2]s`.\n", scripts, s.Name)
	if len(s.Metadata.Tools) > 0 {
		b.WriteString("\nIt calls these tools of MCP servers, as functions of the package `servers`:\n\n")
		for _, t := range s.Metadata.Tools {
			fmt.Fprintf(&b, "- `%s`\n", t)
		}
	}
	return b.String()
}

// String returns the front matter between its delimiters. Each string is written in JSON, which
// is YAML too.
func (f Frontmatter) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "---\nname: %s\ndescription: %s\n", f.Name, quote(f.Description))
	if len(f.Metadata) > 0 {
		b.WriteString("metadata:\n")
		for _, key := range []string{keyName, keyVersion, keyTags} {
			if value, ok := f.Metadata[key]; ok {
				fmt.Fprintf(&b, "  %s: %s\n", key, quote(value))
			}
		}
	}
	b.WriteString("---\n\n")
	return b.String()
}

func quote(text string) string {
	b, _ := json.Marshal(text) // a string can always be encoded
	return string(b)
}

// joinTags joins tags with commas, or returns a JSON array if that is not reversible.
func joinTags(tags []string) string {
	for _, tag := range tags {
		if strings.Contains(tag, ",") || strings.TrimSpace(tag) != tag || strings.HasPrefix(tag, "[") {
			b, _ := json.Marshal(tags)
			return string(b)
		}
	}
	return strings.Join(tags, ", ")
}

func splitTags(text string) (tags []string) {
	if strings.HasPrefix(text, "[") && json.Unmarshal([]byte(text), &tags) == nil {
		return tags
	}
	for tag := range strings.SplitSeq(text, ",") {
		if tag = strings.TrimSpace(tag); tag != "" {
			tags = append(tags, tag)
		}
	}
	return tags
}

// Write creates the folder below dir and returns its path. It is an error if the folder exists.
func (f Folder) Write(dir string) (path string, err error) {
	path = filepath.Join(dir, f.Frontmatter.Name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	if err := os.Mkdir(path, 0o755); os.IsExist(err) {
		return "", fault.New(fault.Invalid, "%s exists", path).WithHint("remove it, or export to another directory")
	} else if err != nil {
		return "", err
	}
	for _, file := range f.Files {
		target := filepath.Join(path, filepath.FromSlash(file.Path))
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			return "", err
		}
		if err := os.WriteFile(target, []byte(file.Content), 0o644); err != nil {
			return "", err
		}
	}
	return path, nil
}
