package oauth

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"

	"github.com/sandpiper-mcp/sandpiper/internal/config/section"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream"
)

// Client identifies us to an authorization server. The zero value uses dynamic client
// registration when a person logs in. ID, Secret and Key may be references.
type Client struct {
	ID          string   // of a client registered in advance; "" means none
	Secret      string   // of that client; "" means none
	Key         string   // private key in PEM, instead of a secret
	MetadataURL string   // URL of a client ID metadata document, for servers that support it
	Issuer      string   // authorization server that ID and Secret are for; "" means the one that the server names
	Redirect    string   // redirect URL on this machine; "" means /callback on a free port of 127.0.0.1
	Scopes      []string // to request; nil requests those that the server names
	Machine     bool     // use the client credentials grant, without a person
}

// Validate implements upstream.Authorization.
func (c *Client) Validate() error {
	if c.Machine && (c.ID == "" || c.Secret == "" && c.Key == "") {
		return fault.New(fault.Invalid, "uses client credentials and needs client_id, and client_secret or private_key")
	}
	return nil
}

// Tokens implements upstream.Authorization.
func (c *Client) Tokens(ctx context.Context, a upstream.Account) (upstream.TokenSource, error) {
	if !c.Machine && a.Logins == nil {
		return nil, nil
	}
	client := *c
	for what, value := range map[string]*string{"client_id": &client.ID, "client_secret": &client.Secret, "private_key": &client.Key} {
		resolved, err := a.Resolve(ctx, what, *value)
		if err != nil {
			return nil, err
		}
		*value = resolved
	}
	a.OnSecret(client.Secret)
	cfg := Config{
		Server:   a.Server,
		URL:      a.URL,
		Client:   client,
		Store:    a.Logins,
		OnSecret: a.OnToken,
		Log:      a.Log,
	}
	if c.Machine {
		return NewClientCredentials(cfg), nil
	}
	return NewLogin(cfg), nil
}

// String hides secrets.
func (c Client) String() string { return "oauth of client " + c.ID }

// GoString hides secrets.
func (c Client) GoString() string { return c.String() }

var keys = map[string]func(c *Client, n ast.Node) error{
	"client_id":           func(c *Client, n ast.Node) error { return scalar(&c.ID, n) },
	"client_secret":       func(c *Client, n ast.Node) error { return scalar(&c.Secret, n) },
	"private_key":         func(c *Client, n ast.Node) error { return scalar(&c.Key, n) },
	"client_metadata_url": func(c *Client, n ast.Node) error { return scalar(&c.MetadataURL, n) },
	"issuer":              func(c *Client, n ast.Node) error { return scalar(&c.Issuer, n) },
	"redirect_url":        func(c *Client, n ast.Node) error { return scalar(&c.Redirect, n) },
	"scopes":              func(c *Client, n ast.Node) error { return list(&c.Scopes, n) },
	"grant":               grant,
}

func grant(c *Client, n ast.Node) error {
	var name string
	if err := scalar(&name, n); err != nil {
		return err
	}
	switch name {
	case "authorization_code", "client_credentials":
		c.Machine = name == "client_credentials"
		return nil
	}
	return fmt.Errorf("is %q; it must be authorization_code or client_credentials", name)
}

// Read implements config.Authorization.
func (c *Client) Read(n ast.Node) error {
	entries := section.Members(n)
	if len(entries) == 0 {
		return fmt.Errorf("must contain keys such as client_id and scopes")
	}
	for _, e := range entries {
		key := e.Key.GetToken().Value
		parse, ok := keys[key]
		if !ok {
			return fmt.Errorf("has no key %q; did you mean %q?", key, fault.Nearest(key, slices.Sorted(maps.Keys(keys)), 1)[0])
		}
		if err := parse(c, e.Value); err != nil {
			return fmt.Errorf("has %s, which %s", key, err)
		}
	}
	switch {
	case c.Machine && (c.ID == "" || c.Secret == "" && c.Key == ""):
		return fmt.Errorf("has grant client_credentials, which needs client_id, and client_secret or private_key")
	case c.ID == "" && (c.Secret != "" || c.Key != ""):
		return fmt.Errorf("has a secret and no client_id that it belongs to")
	}
	return nil
}

func scalar(to *string, n ast.Node) error {
	if _, ok := n.(ast.ScalarNode); !ok || yaml.NodeToValue(n, to) != nil {
		return errors.New("must be a text")
	}
	return nil
}

func list(to *[]string, n ast.Node) error {
	seq, ok := n.(*ast.SequenceNode)
	if !ok {
		return errors.New("must be a list of texts")
	}
	*to = make([]string, len(seq.Values))
	for i, v := range seq.Values {
		if scalar(&(*to)[i], v) != nil {
			return errors.New("must be a list of texts")
		}
	}
	return nil
}
