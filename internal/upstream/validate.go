package upstream

import (
	"net/url"
	"path/filepath"
	"reflect"
	"strings"
	"unicode/utf8"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

const maxServerName = 100 // characters

// validate rejects a configuration that cannot work.
func validate(c Server) error {
	switch {
	case c.Name == "" || utf8.RuneCountInString(c.Name) > maxServerName || !utf8.ValidString(c.Name):
		return fault.New(fault.Invalid, "server name %.120q is not allowed: use 1 to %d characters", c.Name, maxServerName)
	case c.Local != nil && (c.Command != "" || c.URL != "" || c.OpenAPI != nil):
		return fault.New(fault.Invalid, "server %q is in this process, which conflicts with command, url and openapi", c.Name)
	case c.OpenAPI != nil && (c.Command != "" || c.URL != ""):
		return fault.New(fault.Invalid, "server %q has openapi, which conflicts with command and url", c.Name)
	case c.OpenAPI == nil && c.Local == nil && c.Network == nil && (c.Command == "") == (c.URL == ""):
		return fault.New(fault.Invalid, "server %q needs either a command or a URL", c.Name)
	case c.Network != nil && (c.Command != "" || c.URL != "" || c.OpenAPI != nil || c.Local != nil):
		return fault.New(fault.Invalid, "server %q sends requests of code, which conflicts with command, url and openapi", c.Name)
	case c.Concurrency < 0 || c.Timeout < 0 || c.ProgressTimeout < 0 || c.StartTimeout < 0:
		return fault.New(fault.Invalid, "server %q has a negative limit", c.Name)
	case c.OpenAPI != nil || c.Local != nil || c.Network != nil:
		return nil
	case c.Command != "" && c.Transport != "" && c.Transport != "stdio":
		return fault.New(fault.Invalid, "server %q has a command and transport %q; a command requires stdio", c.Name, c.Transport)
	case c.Command != "" && (c.ClientCredentials || !reflect.ValueOf(c.Client).IsZero()):
		return fault.New(fault.Invalid, "server %q has a command and oauth; oauth requires a url", c.Name)
	case c.ClientCredentials && (c.Client.ID == "" || c.Client.Secret == "" && c.Client.Key == ""):
		return fault.New(fault.Invalid, "server %q uses client credentials and needs client_id, and client_secret or private_key", c.Name)
	case c.Command != "":
		return validateProgram(c)
	case c.Transport != "" && c.Transport != "http" && c.Transport != "sse":
		return fault.New(fault.Invalid, "server %q has transport %q: use http or sse", c.Name, c.Transport)
	}
	u, err := url.Parse(c.URL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return fault.New(fault.Invalid, "server %q has URL %.200q: it must begin with http:// or https://", c.Name, hidePassword(c.URL))
	}
	return nil
}

func validateProgram(c Server) error {
	for name, value := range c.Env {
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.ContainsRune(value, 0) {
			return fault.New(fault.Invalid, "server %q has an environment variable %.100q that cannot be set", c.Name, name)
		}
	}
	if c.Dir != "" && !filepath.IsAbs(c.Dir) {
		return fault.New(fault.Invalid, "server %q has working directory %q: it must be an absolute path", c.Name, c.Dir)
	}
	return nil
}

func hidePassword(raw string) string {
	if i := strings.LastIndexByte(raw, '@'); i >= 0 {
		return "…" + raw[i:]
	}
	return raw
}

func duplicateName(name string) error {
	return fault.New(fault.Invalid, "there are two servers named %q: give one of them another name", name)
}
