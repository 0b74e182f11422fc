package folder

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/token"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home/skill"
)

// Limits of folders that are read.
const (
	maxManifest    = 256 << 10 // bytes
	maxFrontmatter = 16 << 10  // bytes
	maxLists       = 1000
	maxScript      = 1 << 20 // bytes
	maxScripts     = 50
)

// Read reads the skills in a folder, without checking their code, and the names of files that are
// not part of them. A folder with one script, or with a script of the name of the skill, is one
// skill; otherwise each script is a skill of its own.
func Read(dir string) (drafts []skill.Draft, ignored []string, err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, nil, fault.Wrap(fault.Invalid, err, "the folder %s cannot be read", dir)
	}
	defer root.Close()
	text, err := readFile(root, Manifest, maxManifest)
	if err != nil {
		return nil, nil, fault.Wrap(fault.Invalid, err, "%s is not an Agent Skill: %v", dir, err)
	}
	front, body, err := parse(text)
	if err != nil {
		return nil, nil, fault.New(fault.Invalid, "%s: %v", path.Join(dir, Manifest), err)
	}
	names, ignored, err := list(root)
	if err != nil {
		return nil, nil, fault.Wrap(fault.Invalid, err, "the folder %s cannot be read: %v", dir, err)
	}
	if len(names) == 0 || len(names) > maxScripts {
		return nil, nil, fault.New(fault.Invalid, "%s has %d Python files in %s; an importable skill has 1 to %d", dir, len(names), scripts,
			maxScripts)
	}
	base := skill.Draft{Name: front.pythonName(), Description: front.Description, Tags: front.tags(), Instructions: body}
	single := base.Name + ".py"
	if len(names) == 1 {
		single = names[0]
	}
	for _, name := range names {
		d := base
		if d.Code, err = readFile(root, scripts+"/"+name, maxScript); err != nil {
			return nil, nil, fault.Wrap(fault.Invalid, err, "%s: %v", path.Join(dir, scripts, name), err)
		}
		if slices.Contains(names, single) {
			if name != single {
				ignored = append(ignored, scripts+"/"+name)
				continue
			}
		} else {
			d.Name += "_" + python(strings.TrimSuffix(name, ".py"))
			d.Tags = append(slices.Clone(d.Tags), front.Name)
		}
		drafts = append(drafts, d)
	}
	return drafts, ignored, nil
}

// list returns the names of the scripts, and the paths of all other files.
func list(root *os.Root) (names, others []string, err error) {
	seen := 0
	err = fs.WalkDir(root.FS(), ".", func(name string, e fs.DirEntry, err error) error {
		if seen++; seen > 10_000 {
			return errors.New("it has more than 10000 files")
		}
		switch {
		case err != nil || e.IsDir() || name == Manifest:
			return err
		case path.Dir(name) == scripts && path.Ext(name) == ".py" && e.Type().IsRegular() && !strings.HasPrefix(e.Name(), "__"):
			names = append(names, e.Name())
		default:
			others = append(others, name)
		}
		return nil
	})
	return names, others, err
}

// parse splits a Manifest into its front matter and the text after it.
func parse(text string) (front frontmatter, body string, err error) {
	text = strings.ReplaceAll(strings.TrimPrefix(text, "\ufeff"), "\r\n", "\n")
	rest, ok := strings.CutPrefix(text, "---\n")
	head, body, closed := strings.Cut(rest, "\n---\n")
	if !ok || !closed {
		return front, "", errors.New("it must begin with YAML front matter between lines of ---")
	}
	if len(head) > maxFrontmatter {
		return front, "", fmt.Errorf("the front matter has %d bytes; at most %d are allowed", len(head), maxFrontmatter)
	}
	open := 0
	for _, t := range lexer.Tokenize(head) {
		switch t.Type {
		case token.SequenceStartType, token.MappingStartType, token.SequenceEntryType, token.MappingKeyType:
			if open++; open > maxLists { // the parser needs time and memory for the square of their depth
				return front, "", fmt.Errorf("line %d: the front matter has more than %d lists and items", t.Position.Line+1, maxLists)
			}
		}
		if t.Type == token.AnchorType || t.Type == token.AliasType {
			return front, "", fmt.Errorf("line %d: YAML anchors and aliases are not supported", t.Position.Line+1)
		}
	}
	if err := yaml.Unmarshal([]byte(head), &front); err != nil {
		return front, "", fmt.Errorf("the front matter is not valid: %s", yaml.FormatError(err, false, false))
	}
	if !nameForm.MatchString(front.Name) || len(front.Name) > maxName {
		return front, "", fmt.Errorf("the name %.80q is not allowed: use 1 to %d lower-case letters, digits and single hyphens "+
			"between them", front.Name, maxName)
	}
	if front.Description = strings.TrimSpace(front.Description); front.Description == "" {
		return front, "", errors.New("it has no description")
	}
	return front, strings.TrimPrefix(body, "\n"), nil
}

// frontmatter is a Frontmatter that others may have written.
type frontmatter struct {
	Name        string         `yaml:"name"`
	Description string         `yaml:"description"`
	Metadata    map[string]any `yaml:"metadata"`
}

// pythonName returns the name of the skill.
func (f frontmatter) pythonName() string {
	if name, ok := f.Metadata[keyName].(string); ok && skill.CheckName(name) == nil {
		return name
	}
	return python(f.Name)
}

// python returns a name as an identifier.
func python(name string) string {
	name = strings.Map(func(r rune) rune {
		if r < utf8.RuneSelf && (r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z') {
			return r
		}
		return '_'
	}, name)
	switch {
	case name == "" || name[0] >= '0' && name[0] <= '9':
		return "_" + name
	case skill.CheckName(name) != nil: // a keyword
		return name + "_"
	}
	return name
}

func (f frontmatter) tags() (tags []string) {
	switch v := f.Metadata[keyTags].(type) {
	case string:
		return splitTags(v)
	case []any:
		for _, tag := range v {
			tags = append(tags, fmt.Sprint(tag))
		}
	}
	return tags
}

// readFile reads a regular file of text, which is no link.
func readFile(root *os.Root, name string, limit int64) (string, error) {
	info, err := root.Lstat(name)
	if err != nil {
		return "", errors.New("it has no " + name)
	}
	if !info.Mode().IsRegular() {
		return "", fmt.Errorf("%s is not a regular file", name)
	}
	f, err := root.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	switch {
	case err != nil:
		return "", err
	case int64(len(b)) > limit:
		return "", fmt.Errorf("%s has more than %d bytes", name, limit)
	case !utf8.Valid(b):
		return "", fmt.Errorf("%s is not UTF-8", name)
	}
	return string(b), nil
}
