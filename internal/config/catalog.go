package config

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/sandpiper-mcp/sandpiper/internal/config/section"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream"
)

// CatalogEntry is an entry of catalog that is a mapping: a pointer to a struct of a feature that embeds CatalogKeys, and whose
// other fields are keys, as package section describes.
type CatalogEntry interface {
	Common() *CatalogKeys // of CatalogKeys
	// API returns the API that the entry describes, and sets the name of an entry without one. Relative paths
	// begin at dir. The error continues a sentence that begins with "an entry of catalog".
	API(dir string) (*API, error)
}

// CatalogKeys are the keys that each CatalogEntry has.
type CatalogKeys struct {
	Name        string `key:"name"`
	Category    string `key:"category"`
	Timeout     period `key:"timeout"`
	Idle        period `key:"idle"`
	Concurrency number `key:"concurrency"`
	Disabled    isTrue `key:"disabled"`
}

// Common returns k.
func (k *CatalogKeys) Common() *CatalogKeys { return k }

// API is an API instead of an MCP server. Strings are as written.
type API struct {
	Kind     upstream.Kind
	Type     string   // for lists of servers
	Document string   // absolute path or URL of its description; "" if it has none
	URL      string   // base URL; "" means the one in the document
	Secrets  []string // references to secrets that are sent to it
	Identity []any    // what trust in its definitions is bound to
	// Directs reports that the document, which is not part of the trusted files and can change later, determines
	// where credentials are sent.
	Directs bool
	// Own reports that its definitions are part of the program: changed ones are trusted too.
	Own bool
}

// readCatalogs reads the entries of catalog: files or directories of static catalogs, and APIs.
func readCatalogs(d *draft, s setting) error {
	seq, ok := s.node.(*ast.SequenceNode)
	if !ok {
		return fault.New(fault.Invalid, "%s: catalog must be a list of files", s.from)
	}
	var entry func() CatalogEntry
	if d.Features != nil {
		entry = d.Features.table.entry
	}
	for _, v := range seq.Values {
		if len(section.Members(v)) > 0 && entry != nil {
			if err := readAPI(d, s, v, entry()); err != nil {
				return err
			}
			continue
		}
		var p string
		if err := scalar(&p, v); err != nil {
			return fault.New(fault.Invalid, "%s: an entry of catalog %s", s.from, err)
		}
		d.Catalogs = append(d.Catalogs, homeOrDir(d, p, s.dir))
	}
	return nil
}

// readAPI reads an entry of catalog that is a mapping, and adds it as a server.
func readAPI(d *draft, s setting, n ast.Node, to CatalogEntry) error {
	from := s.source(d.dirs.home)
	at := fmt.Sprintf("%s line %d", from.File, section.Members(n)[0].Key.GetToken().Position.Line)
	if err := section.Set(to, s.key, n, from); err != nil {
		return fault.New(fault.Invalid, "%s: an entry of catalog: %s", at, fault.Message(err))
	}
	api, err := to.API(s.dir)
	if err != nil {
		return fault.New(fault.Invalid, "%s: an entry of catalog %s", at, fault.Message(err))
	}
	e := to.Common()
	if e.Disabled {
		return nil
	}
	if e.Name == "" || len(e.Name) > 100 || strings.ContainsFunc(e.Name, func(r rune) bool { return r < ' ' || r == 0x7f || r == '$' }) {
		return fault.New(fault.Invalid, "%s: %.40q is not a valid name for an API; set name", at, e.Name)
	}
	if slices.ContainsFunc(d.Servers, func(o Server) bool { return o.Name == e.Name && o.API != nil }) {
		return fault.New(fault.Invalid, "%s: two entries are named %q; rename one of them", at, e.Name)
	}
	d.Servers = append(d.Servers, Server{
		Name:        e.Name,
		Category:    e.Category,
		Timeout:     time.Duration(e.Timeout),
		Idle:        time.Duration(e.Idle),
		Concurrency: int(e.Concurrency),
		API:         api,
	})
	return nil
}

// The values of CatalogKeys are read as those of a Server. Any value of disabled but true has no effect.
type (
	period time.Duration
	number int
	isTrue bool
)

// UnmarshalYAML implements yaml.NodeUnmarshaler.
func (p *period) UnmarshalYAML(n ast.Node) error { return span((*time.Duration)(p), n) }

// UnmarshalYAML implements yaml.NodeUnmarshaler.
func (c *number) UnmarshalYAML(n ast.Node) error { return count((*int)(c), n) }

// UnmarshalYAML implements yaml.NodeUnmarshaler.
func (b *isTrue) UnmarshalYAML(n ast.Node) error {
	*b = n.GetToken().Value == "true"
	return nil
}
