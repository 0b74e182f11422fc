package internal_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"
)

var (
	fencedBlock = regexp.MustCompile("(?ms)^ *```.*?^ *```")
	codeSpan    = regexp.MustCompile("`[^`\n]+`")
	link        = regexp.MustCompile(`\]\(([^)\s]+)\)|(?:src|href)="([^"]+)"`)
	heading     = regexp.MustCompile(`(?m)^#+ (.+)$`)
	namedFile   = regexp.MustCompile("(?:^|[\\s`(=])(?:\\./)?((?:\\.ci|bench|changelog|clients|cmd|docs|examples|internal|packaging|scripts)/[\\w./*-]*\\w)")
)

// Every link and every file of the repository that a document names exists.
func TestDocumentsNameExistingFiles(t *testing.T) {
	var documents []string
	for _, pattern := range []string{"../*.md", "../changelog/*/*.md", "../docs/*.md", "../examples/*.md", "../examples/*/*.md",
		"../clients/*/*.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		documents = append(documents, found...)
	}
	anchors, links, names := map[string]map[string]bool{}, 0, 0
	for _, d := range documents {
		anchors[filepath.Clean(d)] = anchorsOf(readDocument(t, d))
	}
	for _, d := range documents {
		text := readDocument(t, d)
		for _, m := range link.FindAllStringSubmatch(codeSpan.ReplaceAllString(fencedBlock.ReplaceAllString(text, ""), ""), -1) {
			target := m[1] + m[2]
			if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
				continue
			}
			links++
			name, anchor, _ := strings.Cut(target, "#")
			file := filepath.Clean(d)
			if name != "" {
				file = filepath.Join(filepath.Dir(d), name)
			}
			if _, err := os.Stat(file); err != nil {
				t.Errorf("%s: the link %s leads nowhere", d, target)
			} else if anchor != "" && anchors[file] != nil && !anchors[file][anchor] {
				t.Errorf("%s: %s has no heading for #%s", d, file, anchor)
			}
		}
		for _, m := range namedFile.FindAllStringSubmatch(text, -1) {
			names++
			if elsewhere[m[1]] || strings.Contains(m[1], "NAME") {
				continue
			}
			if !exists("../"+m[1]) && !exists(filepath.Join(filepath.Dir(d), m[1])) {
				t.Errorf("%s names %s, which is not in the repository", d, m[1])
			}
		}
	}
	if links < 300 || names < 50 {
		t.Errorf("%d links and %d names of files were found: the test no longer finds them", links, names)
	}
}

// elsewhere lists files of other systems.
var elsewhere = map[string]bool{"scripts/generate_tool_files.py": true}

// exists reports whether a file has the path, which may have a *.
func exists(path string) bool {
	found, err := filepath.Glob(path)
	return err == nil && len(found) > 0
}

func readDocument(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// anchorsOf returns the anchors of headings, as GitHub makes them.
func anchorsOf(text string) map[string]bool {
	all := map[string]bool{}
	for _, m := range heading.FindAllStringSubmatch(fencedBlock.ReplaceAllString(text, ""), -1) {
		name := regexp.MustCompile(`\]\([^)]*\)`).ReplaceAllString(m[1], "]")
		all[strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
				return unicode.ToLower(r)
			}
			return -1
		}, name)] = true
	}
	return all
}

// Each message of docs/troubleshooting.md is in the source, apart from its names and values.
func TestTroubleshootingMessagesExist(t *testing.T) {
	var source strings.Builder
	for _, root := range []string{".", "../cmd"} {
		err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
			if ext := filepath.Ext(path); err == nil && (ext == ".go" || ext == ".py") && !strings.Contains(path, "_test.") {
				source.WriteString(readDocument(t, path))
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	rows := regexp.MustCompile("(?m)^\\| (`.*?`) \\| ").FindAllStringSubmatch(readDocument(t, "../docs/troubleshooting.md"), -1)
	if len(rows) < 30 {
		t.Errorf("%d messages were found", len(rows))
	}
	for _, row := range rows {
		for _, message := range codeSpan.FindAllString(row[1], -1) {
			for part := range strings.SplitSeq(strings.Trim(message, "`"), "…") {
				if part = strings.Trim(part, " :,"); !strings.Contains(source.String(), part) {
					t.Errorf("no message has %q", part)
				}
			}
		}
	}
}
