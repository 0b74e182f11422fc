package config

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/sandpiper-mcp/sandpiper/internal/config/section"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream/openapi"
)

// parsers parse the keys of an entry into a T.
type parsers[T any] map[string]func(to *T, n ast.Node) error

// fill reads a mapping. An unknown key is an error that names the nearest known key.
func (p parsers[T]) fill(to *T, n ast.Node) error {
	if len(section.Members(n)) == 0 {
		return fmt.Errorf("must contain keys such as %s", strings.Join(slices.Sorted(maps.Keys(p)), ", "))
	}
	for _, m := range section.Members(n) {
		key := m.Key.GetToken().Value
		parse, ok := p[key]
		if !ok {
			return fmt.Errorf("has no key %q; did you mean %q?", key, nearestOf(key, p))
		}
		if err := parse(to, m.Value); err != nil {
			return fmt.Errorf("%s %w", key, err)
		}
	}
	return nil
}

// documentKeys are the keys of an entry of catalog with an OpenAPI document.
var documentKeys = parsers[Server]{
	"openapi":     func(s *Server, n ast.Node) error { return scalar(&s.OpenAPI.Document, n) },
	"name":        func(s *Server, n ast.Node) error { return scalar(&s.Name, n) },
	"url":         func(s *Server, n ast.Node) error { return address(&s.OpenAPI.URL, n) },
	"server":      func(s *Server, n ast.Node) error { return scalar(&s.OpenAPI.Server, n) },
	"variables":   func(s *Server, n ast.Node) error { return mapping(&s.OpenAPI.Variables, n) },
	"hosts":       func(s *Server, n ast.Node) error { return list(&s.OpenAPI.Hosts, n) },
	"headers":     func(s *Server, n ast.Node) error { return mapping(&s.OpenAPI.Headers, n) },
	"auth":        func(s *Server, n ast.Node) error { return authKeys.fill(&s.OpenAPI.Auth, n) },
	"include":     func(s *Server, n ast.Node) error { return filterKeys.fill(&s.OpenAPI.Include, n) },
	"exclude":     func(s *Server, n ast.Node) error { return filterKeys.fill(&s.OpenAPI.Exclude, n) },
	"category":    func(s *Server, n ast.Node) error { return scalar(&s.Category, n) },
	"timeout":     func(s *Server, n ast.Node) error { return span(&s.Timeout, n) },
	"idle":        func(s *Server, n ast.Node) error { return span(&s.Idle, n) },
	"concurrency": func(s *Server, n ast.Node) error { return count(&s.Concurrency, n) },
	"disabled":    func(s *Server, n ast.Node) error { return nil },
}

var authKeys = parsers[openapi.Auth]{
	"bearer": func(a *openapi.Auth, n ast.Node) error { return secret(&a.Bearer, n) },
	"basic": func(a *openapi.Auth, n ast.Node) error {
		a.Basic = &openapi.Basic{}
		return basicKeys.fill(a.Basic, n)
	},
	"key": func(a *openapi.Auth, n ast.Node) error {
		a.Key = &openapi.APIKey{}
		if err := keyKeys.fill(a.Key, n); err != nil {
			return err
		}
		if (a.Key.In == "") != (a.Key.Name == "") {
			return fmt.Errorf("must hold both in and name, or neither: then the document says them")
		}
		return needs("value", a.Key.Value)
	},
	"client_credentials": func(a *openapi.Auth, n ast.Node) error {
		a.Client = &openapi.ClientCredentials{}
		if err := clientKeys.fill(a.Client, n); err != nil {
			return err
		}
		if err := needs("client_id", a.Client.ID); err != nil {
			return err
		}
		return needs("client_secret", a.Client.Secret)
	},
}

var basicKeys = parsers[openapi.Basic]{
	"username": func(b *openapi.Basic, n ast.Node) error { return scalar(&b.User, n) },
	"password": func(b *openapi.Basic, n ast.Node) error { return secret(&b.Password, n) },
}

var keyKeys = parsers[openapi.APIKey]{
	"in": func(k *openapi.APIKey, n ast.Node) error {
		if err := scalar(&k.In, n); err != nil || !slices.Contains([]string{"header", "query", "cookie"}, k.In) {
			return fmt.Errorf("is %q; it must be header, query or cookie", k.In)
		}
		return nil
	},
	"name":  func(k *openapi.APIKey, n ast.Node) error { return scalar(&k.Name, n) },
	"value": func(k *openapi.APIKey, n ast.Node) error { return secret(&k.Value, n) },
}

var clientKeys = parsers[openapi.ClientCredentials]{
	"token_url":     func(c *openapi.ClientCredentials, n ast.Node) error { return address(&c.TokenURL, n) },
	"client_id":     func(c *openapi.ClientCredentials, n ast.Node) error { return scalar(&c.ID, n) },
	"client_secret": func(c *openapi.ClientCredentials, n ast.Node) error { return secret(&c.Secret, n) },
	"scopes":        func(c *openapi.ClientCredentials, n ast.Node) error { return list(&c.Scopes, n) },
	"audience":      func(c *openapi.ClientCredentials, n ast.Node) error { return scalar(&c.Audience, n) },
}

var filterKeys = parsers[openapi.Filter]{
	"tags":       func(f *openapi.Filter, n ast.Node) error { return list(&f.Tags, n) },
	"operations": func(f *openapi.Filter, n ast.Node) error { return list(&f.Operations, n) },
	"methods":    func(f *openapi.Filter, n ast.Node) error { return list(&f.Methods, n) },
}

// secret reads a reference to a secret. A literal secret is an error that does not
// contain it.
func secret(to *string, n ast.Node) error {
	if err := scalar(to, n); err != nil {
		return err
	}
	if !strings.Contains(*to, "${") {
		return fmt.Errorf("must be a reference, ${NAME} or ${file:PATH}: this file is no place for it")
	}
	return nil
}

func needs(key, value string) error {
	if value == "" {
		return errors.New("has no " + key)
	}
	return nil
}

// address reads a base URL.
func address(to *string, n ast.Node) error {
	if err := scalar(to, n); err != nil {
		return err
	}
	if !strings.HasPrefix(*to, "http://") && !strings.HasPrefix(*to, "https://") && !strings.HasPrefix(*to, "${") {
		return fmt.Errorf("must begin with http:// or https://")
	}
	return nil
}

// document reads an entry of catalog with an OpenAPI document, and returns it as a
// server.
func (d *draft) document(s setting, n ast.Node) error {
	file, _, _ := strings.Cut(s.from, " line ")
	at := fmt.Sprintf("%s line %d", file, section.Members(n)[0].Key.GetToken().Position.Line)
	one := Server{OpenAPI: &openapi.Source{}}
	if err := documentKeys.fill(&one, n); err != nil {
		return fault.New(fault.Invalid, "%s: an entry of catalog: %s", at, err)
	}
	if one.OpenAPI.Document == "" {
		return fault.New(fault.Invalid, "%s: an entry of catalog has no openapi, the path or URL of an OpenAPI document", at)
	}
	for _, m := range section.Members(n) {
		if m.Key.GetToken().Value == "disabled" && m.Value.GetToken().Value == "true" {
			return nil
		}
	}
	if one.Name == "" {
		place, _, _ := strings.Cut(one.OpenAPI.Document, "?")
		base := filepath.Base(place)
		one.Name = strings.TrimSuffix(base, filepath.Ext(base))
	}
	if one.Name == "" || len(one.Name) > 100 || strings.ContainsFunc(one.Name, func(r rune) bool { return r < ' ' || r == 0x7f || r == '$' }) {
		return fault.New(fault.Invalid, "%s: %.40q is not a valid name for an API; set name", at, one.Name)
	}
	if slices.ContainsFunc(d.Servers, func(o Server) bool { return o.Name == one.Name && o.OpenAPI != nil }) {
		return fault.New(fault.Invalid, "%s: two entries are named %q; rename one of them", at, one.Name)
	}
	one.OpenAPI.Document = resolvePath(one.OpenAPI.Document, s.dir)
	d.Servers = append(d.Servers, one)
	return nil
}

// resolvePath returns a path relative to the configuration file; URLs are unchanged.
func resolvePath(place, dir string) string {
	if strings.HasPrefix(place, "http://") || strings.HasPrefix(place, "https://") || strings.HasPrefix(place, "${") || filepath.IsAbs(place) {
		return place
	}
	return filepath.Join(dir, place)
}
