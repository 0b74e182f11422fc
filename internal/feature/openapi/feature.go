// Package openapi makes servers of HTTP APIs that OpenAPI documents describe: entries of catalog with the key openapi.
package openapi

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/config"
	"github.com/sandpiper-mcp/sandpiper/internal/daemon"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/feature"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/openapi/openapi"
)

// Feature returns the feature: the servers of OpenAPI documents.
func Feature() feature.Feature {
	return feature.Feature{
		Feature: daemon.Feature{
			Name:   "openapi",
			Config: config.Section{Entry: func() config.CatalogEntry { return new(entry) }},
		},
		Docs: "openapi.md",
	}
}

// entry is an entry of catalog with an OpenAPI document.
type entry struct {
	openapi.Source
	config.CatalogKeys
}

// API implements config.CatalogEntry.
func (e *entry) API(dir string) (*config.API, error) {
	s := &e.Source
	if s.Document == "" {
		return nil, fault.New(fault.Invalid, "has no openapi, the path or URL of an OpenAPI document")
	}
	if e.Name == "" {
		place, _, _ := strings.Cut(s.Document, "?")
		base := filepath.Base(place)
		e.Name = strings.TrimSuffix(base, filepath.Ext(base))
	}
	if !isURL(s.Document) && !strings.HasPrefix(s.Document, "${") && !filepath.IsAbs(s.Document) {
		s.Document = filepath.Join(dir, s.Document)
	}
	return &config.API{
		Kind:     s,
		Type:     "openapi",
		Document: s.Document,
		URL:      s.URL,
		Secrets:  secrets(s),
		Identity: []any{s.Document, s.URL, s.Server, s.Variables, s.Include, s.Exclude},
		Directs:  directs(s),
	}, nil
}

func isURL(place string) bool {
	return strings.HasPrefix(place, "http://") || strings.HasPrefix(place, "https://")
}

// secrets returns the references to secrets that are sent to an API.
func secrets(s *openapi.Source) (all []string) {
	for name, value := range s.Headers {
		all = append(all, name+": "+value)
	}
	a := s.Auth
	if a.Bearer != "" {
		all = append(all, a.Bearer)
	}
	if a.Basic != nil {
		all = append(all, a.Basic.User, a.Basic.Password)
	}
	if a.Key != nil {
		all = append(all, a.Key.Value)
	}
	if a.Client != nil {
		all = append(all, a.Client.TokenURL, a.Client.ID, a.Client.Secret)
	}
	slices.Sort(all)
	return all
}

// directs reports whether the document of an API determines where credentials are sent. A document at a URL may only
// name its own host.
func directs(s *openapi.Source) bool {
	if isURL(s.Document) {
		return false
	}
	a := s.Auth
	credentials := a.Bearer != "" || a.Basic != nil || a.Key != nil || a.Client != nil || len(s.Headers) > 0
	return credentials && s.URL == "" || a.Client != nil && a.Client.TokenURL == ""
}
