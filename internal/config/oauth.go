package config

import (
	"fmt"

	"github.com/goccy/go-yaml/ast"

	"github.com/sandpiper-mcp/sandpiper/internal/config/section"
)

// OAuth configures the OAuth client of an MCP server. The zero value is a client that
// registers itself when a person logs in.
type OAuth struct {
	ClientID     string
	ClientSecret string
	PrivateKey   string // PEM, instead of a secret
	Document     string // URL of a client id metadata document
	Issuer       string // the authorization server that ClientID belongs to
	Redirect     string // redirect URI, on this machine
	Scopes       []string
	Machine      bool // use the client credentials grant, without a person
}

// String hides secrets.
func (o OAuth) String() string { return "oauth of client " + o.ClientID }

// GoString hides secrets.
func (o OAuth) GoString() string { return o.String() }

var oauthKeys = map[string]func(o *OAuth, n ast.Node) error{
	"client_id":           func(o *OAuth, n ast.Node) error { return scalar(&o.ClientID, n) },
	"client_secret":       func(o *OAuth, n ast.Node) error { return scalar(&o.ClientSecret, n) },
	"private_key":         func(o *OAuth, n ast.Node) error { return scalar(&o.PrivateKey, n) },
	"client_metadata_url": func(o *OAuth, n ast.Node) error { return scalar(&o.Document, n) },
	"issuer":              func(o *OAuth, n ast.Node) error { return scalar(&o.Issuer, n) },
	"redirect_url":        func(o *OAuth, n ast.Node) error { return scalar(&o.Redirect, n) },
	"scopes":              func(o *OAuth, n ast.Node) error { return list(&o.Scopes, n) },
	"grant":               grant,
}

func grant(o *OAuth, n ast.Node) error {
	var name string
	if err := scalar(&name, n); err != nil {
		return err
	}
	switch name {
	case "authorization_code", "client_credentials":
		o.Machine = name == "client_credentials"
		return nil
	}
	return fmt.Errorf("is %q; it must be authorization_code or client_credentials", name)
}

func (o *OAuth) fill(n ast.Node) error {
	entries := section.Members(n)
	if len(entries) == 0 {
		return fmt.Errorf("must contain keys such as client_id and scopes")
	}
	for _, e := range entries {
		key := e.Key.GetToken().Value
		parse, ok := oauthKeys[key]
		if !ok {
			return fmt.Errorf("has no key %q; did you mean %q?", key, nearestOf(key, oauthKeys))
		}
		if err := parse(o, e.Value); err != nil {
			return fmt.Errorf("has %s, which %s", key, err)
		}
	}
	switch {
	case o.Machine && (o.ClientID == "" || o.ClientSecret == "" && o.PrivateKey == ""):
		return fmt.Errorf("has grant client_credentials, which needs client_id, and client_secret or private_key")
	case o.ClientID == "" && (o.ClientSecret != "" || o.PrivateKey != ""):
		return fmt.Errorf("has a secret and no client_id that it belongs to")
	}
	return nil
}
