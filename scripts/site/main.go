// Command site makes a static site of README.md, SECURITY.md, CONTRIBUTING.md and docs, with the index of docs/README.md as its menu.
// Links to other files of the repository lead to its host. No page needs JavaScript or another site.
//
//	go run -C scripts/site . -out dist/site
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"html/template"
	"log"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/renderer/html"
	"github.com/yuin/goldmark/text"

	_ "embed"
)

//go:embed page.html
var pageHTML string

var page = template.Must(template.New("page").Parse(pageHTML))

const root = "../.."

func main() {
	out := flag.String("out", "dist/site", "directory of the site, relative to the repository")
	flag.Parse()
	if err := build(filepath.Join(root, *out)); err != nil {
		log.Fatal(err)
	}
}

// site has the documents by their path in the repository.
type site struct {
	markdown   goldmark.Markdown
	documents  map[string][]byte
	repository string // URL of the files of the repository
}

// build writes the site to a directory.
func build(out string) error {
	s := &site{documents: map[string][]byte{}, markdown: goldmark.New(
		goldmark.WithExtensions(extension.GFM),
		goldmark.WithParserOptions(parser.WithAutoHeadingID()),
		goldmark.WithRendererOptions(html.WithUnsafe()), // the documents are the project's own
	)}
	module, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		return err
	}
	name := regexp.MustCompile(`(?m)^module (\S+)$`).FindSubmatch(module)
	if name == nil {
		return errors.New("go.mod has no module")
	}
	s.repository = fmt.Sprintf("https://%s/blob/main/", name[1])
	pages, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil {
		return err
	}
	for _, n := range []string{"README.md", "SECURITY.md", "CONTRIBUTING.md"} {
		pages = append(pages, filepath.Join(root, n))
	}
	for _, p := range pages {
		data, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		s.documents[filepath.ToSlash(name)] = data
	}
	if err := os.RemoveAll(out); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(out, "docs"), 0o755); err != nil {
		return err
	}
	for name := range s.documents {
		if err := s.write(out, name); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	picture, err := os.ReadFile(filepath.Join(root, "docs", "session.svg"))
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(out, "docs", "session.svg"), picture, 0o644)
}

// write writes the page of a document.
func (s *site) write(out, name string) error {
	source := s.documents[name]
	tree := s.markdown.Parser().Parse(text.NewReader(source), parser.WithContext(parser.NewContext(parser.WithIDs(&ids{}))))
	title := name
	err := ast.Walk(tree, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		switch n := n.(type) {
		case *ast.Heading:
			if entering && n.Level == 1 {
				title = string(n.Lines().Value(source))
			}
		case *ast.Link:
			if entering {
				n.Destination = []byte(s.target(name, string(n.Destination)))
			}
		}
		return ast.WalkContinue, nil
	})
	if err != nil {
		return err
	}
	var body, b bytes.Buffer
	if err := s.markdown.Renderer().Render(&body, source, tree); err != nil {
		return err
	}
	up := strings.Repeat("../", strings.Count(name, "/"))
	if err := page.Execute(&b, map[string]any{"Title": title, "Up": up, "Body": template.HTML(body.String())}); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(out, htmlName(name)), b.Bytes(), 0o644)
}

// target returns where a link of a document leads on the site.
func (s *site) target(from, link string) string {
	file, anchor, _ := strings.Cut(link, "#")
	if strings.Contains(link, "://") || file == "" {
		return link
	}
	if anchor != "" {
		anchor = "#" + anchor
	}
	name := path.Join(path.Dir(from), file)
	if s.documents[name] == nil {
		return s.repository + name + anchor
	}
	return strings.Repeat("../", strings.Count(from, "/")) + htmlName(name) + anchor
}

func htmlName(document string) string {
	name := strings.TrimSuffix(document, ".md") + ".html"
	return strings.Replace(name, "README.html", "index.html", 1)
}
