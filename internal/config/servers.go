package config

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"

	"github.com/sandpiper-mcp/sandpiper/internal/clock"
	"github.com/sandpiper-mcp/sandpiper/internal/config/section"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream"
)

// Server is an MCP server, in the form of clients' mcpServers, or an API of the catalog.
// Strings may contain ${NAME}, which is expanded when the server is started, so that
// secrets stay in the environment.
type Server struct {
	Name            string
	Command         string // program to start; "" for a server with a URL
	Args            []string
	Env             map[string]string
	Dir             string // working directory, absolute
	URL             string
	Headers         map[string]string
	API             *API           // instead of an MCP server; nil for a server
	Local           upstream.Local // a server in this process, which no file contains
	Transport       string         // stdio, http or sse; "" means automatic
	Authorization   Authorization  // for a server with a URL; nil means none
	Category        string         // "" means inferred
	Timeout         time.Duration  // time limit of one call; 0 means the default
	ProgressTimeout time.Duration  // time limit of one call that reports progress; 0 means the default
	StartTimeout    time.Duration  // time limit of a start; 0 means the default
	Idle            time.Duration  // time without calls after which it is stopped; 0 means the default
	Concurrency     int            // concurrent calls; 0 means the default
	Trusted         bool           // its annotations count
	Review          bool           // a person accepts its tools before they can be used
	Project         bool           // added by a project file
}

// String hides secrets.
func (s Server) String() string { return "server " + s.Name }

// GoString hides secrets.
func (s Server) GoString() string { return s.String() }

// Authorization obtains access tokens for a server, as a feature has it.
type Authorization interface {
	upstream.Authorization
	// Read reads the value of an AuthorizationKey. The error continues a sentence that begins with the key.
	Read(ast.Node) error
}

// AuthorizationKey is a key of servers with a URL.
type AuthorizationKey struct {
	Name string
	// New returns the value that the key changes; servers without the key have it unchanged.
	New func() Authorization
}

// serverKey parses the value of a key of a server.
type serverKey = func(s *Server, n ast.Node, dir string) error

// serverKeys returns the keys of a server.
func (t *table) serverKeys() map[string]serverKey {
	if t.auth.New == nil {
		return serverKeys
	}
	all := maps.Clone(serverKeys)
	all[t.auth.Name] = func(s *Server, n ast.Node, _ string) error {
		s.Authorization = t.auth.New()
		return s.Authorization.Read(n)
	}
	return all
}

// serverKeys contains the parsers of the keys of a server. Keys of other clients that do
// not apply have no effect.
var serverKeys = map[string]serverKey{
	"command":          func(s *Server, n ast.Node, _ string) error { return scalar(&s.Command, n) },
	"args":             func(s *Server, n ast.Node, _ string) error { return list(&s.Args, n) },
	"env":              func(s *Server, n ast.Node, _ string) error { return mapping(&s.Env, n) },
	"cwd":              func(s *Server, n ast.Node, _ string) error { return scalar(&s.Dir, n) },
	"url":              func(s *Server, n ast.Node, _ string) error { return scalar(&s.URL, n) },
	"headers":          func(s *Server, n ast.Node, _ string) error { return mapping(&s.Headers, n) },
	"type":             func(s *Server, n ast.Node, _ string) error { return transport(s, n) },
	"transport":        func(s *Server, n ast.Node, _ string) error { return transport(s, n) },
	"category":         func(s *Server, n ast.Node, _ string) error { return scalar(&s.Category, n) },
	"timeout":          func(s *Server, n ast.Node, _ string) error { return span(&s.Timeout, n) },
	"progress_timeout": func(s *Server, n ast.Node, _ string) error { return span(&s.ProgressTimeout, n) },
	"start_timeout":    func(s *Server, n ast.Node, _ string) error { return span(&s.StartTimeout, n) },
	"idle":             func(s *Server, n ast.Node, _ string) error { return span(&s.Idle, n) },
	"concurrency":      func(s *Server, n ast.Node, _ string) error { return count(&s.Concurrency, n) },
	"trusted":          func(s *Server, n ast.Node, _ string) error { return truth(&s.Trusted, n) },
	"review":           func(s *Server, n ast.Node, _ string) error { return truth(&s.Review, n) },
	"name":             nil,
	"disabled":         nil,
	"autoApprove":      nil,
	"alwaysAllow":      nil,
	"description":      nil,
}

// readServers reads the entries of servers.
func readServers(d *draft, s setting) error {
	entries, err := named(s)
	if err != nil {
		return err
	}
	file, _, _ := strings.Cut(s.from, " line ")
	for _, v := range entries {
		name := v.name
		at := fmt.Sprintf("%s line %d", file, v.line)
		one := Server{Name: name, Dir: s.dir}
		off, err := one.fill(v.node, at, s.dir, d.Features.table)
		if err != nil {
			return err
		}
		if auth := d.Features.table.auth; auth.New != nil && one.URL != "" && one.Authorization == nil {
			one.Authorization = auth.New()
		}
		one.Dir = homeOrDir(d, one.Dir, s.dir)
		if strings.HasPrefix(one.Command, "~/") {
			one.Command = homeOrDir(d, one.Command, s.dir)
		}
		d.Servers = slices.DeleteFunc(d.Servers, func(o Server) bool { return o.Name == name && o.API == nil })
		if off {
			d.Disabled = append(d.Disabled, name)
			continue
		}
		d.Servers = append(d.Servers, one)
	}
	return nil
}

// entry is the entry of a server with its name.
type entry struct {
	name string
	line int
	node ast.Node
}

// named reads servers by name, or a seed's list of named servers.
func named(s setting) (all []entry, err error) {
	for _, v := range section.Members(s.node) {
		t := v.Key.GetToken()
		all = append(all, entry{t.Value, t.Position.Line, v.Value})
	}
	seq, ok := s.node.(*ast.SequenceNode)
	if !ok {
		if len(all) == 0 && s.node.Type() != ast.MappingType {
			err = fault.New(fault.Invalid, "%s: %s must contain servers by name", s.from, s.key)
		}
		return all, err
	}
	for _, v := range seq.Values {
		e := entry{line: v.GetToken().Position.Line, node: v}
		for _, m := range section.Members(v) {
			if m.Key.GetToken().Value == "name" {
				e.name = m.Value.GetToken().Value
			}
		}
		if e.name == "" {
			return nil, fault.New(fault.Invalid, "%s: an entry of %s has no name", s.from, s.key)
		}
		if i := slices.IndexFunc(all, func(o entry) bool { return o.name == e.name }); i >= 0 {
			return nil, fault.New(fault.Invalid, "%s: the server %s is in line %d already; give one of them another name", s.from, e.name,
				all[i].line)
		}
		all = append(all, e)
	}
	return all, nil
}

// fill reads one entry, and reports whether it is disabled.
func (s *Server) fill(n ast.Node, at, dir string, t *table) (off bool, err error) {
	if s.Name == "" || len(s.Name) > 100 || strings.ContainsFunc(s.Name, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return false, fault.New(fault.Invalid, "%s: %.40q is not a valid name for a server", at, s.Name).
			WithHint("use 1 to 100 bytes without control characters")
	}
	entries := section.Members(n)
	if len(entries) == 0 {
		return false, fault.New(fault.Invalid, "%s: server %s must contain command or url", at, s.Name)
	}
	keys := t.serverKeys()
	for _, e := range entries {
		key := e.Key.GetToken().Value
		parse, ok := keys[key]
		switch {
		case !ok:
			return false, fault.New(fault.Invalid, "%s: server %s: there is no key %q; did you mean %q?", at, s.Name, key,
				nearestOf(key, keys))
		case key == "disabled":
			if err := truth(&off, e.Value); err != nil {
				return false, fault.New(fault.Invalid, "%s: server %s: disabled %s", at, s.Name, err)
			}
		case parse != nil:
			if err := parse(s, e.Value, dir); err != nil {
				return false, fault.New(fault.Invalid, "%s: server %s: %s %s", at, s.Name, key, err)
			}
		}
	}
	switch {
	case s.Command == "" && s.URL == "":
		return off, fault.New(fault.Invalid, "%s: server %s has neither command nor url", at, s.Name)
	case s.Command != "" && s.URL != "":
		return off, fault.New(fault.Invalid, "%s: server %s has both command and url; remove one", at, s.Name)
	case s.URL != "" && !strings.HasPrefix(s.URL, "http://") && !strings.HasPrefix(s.URL, "https://") && !strings.HasPrefix(s.URL, "${"):
		return off, fault.New(fault.Invalid, "%s: server %s: url must begin with http:// or https://", at, s.Name)
	case s.URL != "" && !strings.Contains(s.URL, "${") && !hasHost(s.URL):
		return off, fault.New(fault.Invalid, "%s: server %s: url has no host", at, s.Name)
	case s.Command != "" && s.Authorization != nil:
		return off, fault.New(fault.Invalid, "%s: server %s: %s needs a url; pass credentials to a program in env", at, s.Name, t.auth.Name)
	case s.Transport == "stdio" && s.URL != "" || s.Transport != "" && s.Transport != "stdio" && s.Command != "":
		return off, fault.New(fault.Invalid, "%s: server %s: transport %s conflicts with its other keys", at, s.Name, s.Transport)
	}
	for name := range s.Headers {
		if !isHeader(name) {
			return off, fault.New(fault.Invalid, "%s: server %s: %.60q is no name of a header", at, s.Name, name)
		}
	}
	return off, nil
}

func hasHost(raw string) bool {
	u, err := url.Parse(raw)
	return err == nil && u.Host != ""
}

// isHeader reports whether name is a token of HTTP.
func isHeader(name string) bool {
	return name != "" && !strings.ContainsFunc(name, func(r rune) bool {
		return r <= ' ' || r >= 0x7f || strings.ContainsRune("\"(),/:;<=>?@[\\]{}", r)
	})
}

func scalar(to *string, n ast.Node) error {
	if _, ok := n.(ast.ScalarNode); !ok || yaml.NodeToValue(n, to) != nil {
		return fmt.Errorf("must be a text")
	}
	return nil
}

func list(to *[]string, n ast.Node) error {
	seq, ok := n.(*ast.SequenceNode)
	if !ok {
		return fmt.Errorf("must be a list of texts")
	}
	*to = nil
	for _, v := range seq.Values {
		var s string
		if err := scalar(&s, v); err != nil {
			return fmt.Errorf("must be a list of texts")
		}
		*to = append(*to, s)
	}
	return nil
}

// oneOrMore reads a string or a list of strings.
func oneOrMore(to *[]string, n ast.Node) error {
	if _, several := n.(*ast.SequenceNode); several {
		if err := list(to, n); err != nil || len(*to) == 0 {
			return fmt.Errorf("must be a text or a list of texts")
		}
		return nil
	}
	*to = make([]string, 1)
	return scalar(&(*to)[0], n)
}

func mapping(to *map[string]string, n ast.Node) error {
	if _, ok := n.(*ast.NullNode); !ok && n.Type() != ast.MappingType && n.Type() != ast.MappingValueType {
		return fmt.Errorf("must be a mapping of names to texts, such as {NAME: value}")
	}
	*to = map[string]string{}
	for _, v := range section.Members(n) {
		var s string
		if err := scalar(&s, v.Value); err != nil {
			return fmt.Errorf("must hold a text for each name")
		}
		(*to)[v.Key.GetToken().Value] = s
	}
	return nil
}

// homeOrDir resolves a path relative to dir; ~ is the user's home directory.
func homeOrDir(d *draft, path, dir string) string {
	return absolute(path, dir, map[string]string{"HOME": d.dirs.home})
}

// findProgram makes the path of the program of a command absolute. A name without a slash is
// searched on PATH.
func findProgram(d *draft, command []string, s setting) {
	if len(command) > 0 && strings.ContainsAny(command[0], `/\`) {
		command[0] = homeOrDir(d, command[0], s.dir)
	}
}

func span(to *time.Duration, n ast.Node) error {
	var s string
	if err := scalar(&s, n); err != nil {
		return err
	}
	v, err := clock.ParseDuration(s)
	if err != nil || v <= 0 {
		return fmt.Errorf("is %q; it must be a time such as 30s or 5m", s)
	}
	*to = v
	return nil
}

func count(to *int, n ast.Node) error {
	if yaml.NodeToValue(n, to) != nil || *to < 1 || *to > 1000 {
		return fmt.Errorf("must be a number from 1 to 1000")
	}
	return nil
}

// transport reads the transport names of other clients.
func truth(to *bool, n ast.Node) error {
	b, ok := n.(*ast.BoolNode)
	if !ok {
		return fmt.Errorf("is %s; it must be true or false", n)
	}
	*to = b.Value
	return nil
}

func transport(s *Server, n ast.Node) error {
	var name string
	if err := scalar(&name, n); err != nil {
		return err
	}
	switch name {
	case "stdio", "sse", "http":
		s.Transport = name
	case "streamable-http", "streamableHttp", "streamable_http":
		s.Transport = "http"
	default:
		return fmt.Errorf("is %q; it must be stdio, http or sse", name)
	}
	return nil
}
