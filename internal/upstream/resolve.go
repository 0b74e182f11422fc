package upstream

import (
	"context"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// Use is where a setting is sent.
type Use int

const (
	InURL    Use = iota // a URL, or its beginning, of which only parts are secret
	InHeader            // the value of a header, which may have a scheme
	AsName              // the name of an account, which is a secret only if it is a reference
	AsSecret            // a secret
)

// Resolve returns a setting, which what names, with its references resolved. Secrets that it contains
// are redacted from now on, also in results.
func (h *Host) Resolve(ctx context.Context, what, value string, use Use) (string, error) {
	resolve := h.set.cfg.Resolve
	if use == InURL {
		resolve = h.resolveURL // which registers the secrets that are sent
	}
	found, err := resolve(ctx, value)
	if err != nil {
		return "", fault.New(fault.KindOf(err), "has no value for its %s: %s", what, fault.Message(err)).WithHint("%s", fault.Hint(err))
	}
	referred := found != value
	if referred || isSecretName(what) {
		h.redact.addSecret(found)
	}
	switch name, _ := strings.CutPrefix(what, "header "); {
	case use == InHeader && (referred || isSecretName(name)):
		h.redact.addSentHeader(found)
	case use == AsName && referred, use == AsSecret:
		h.redact.addSent(found)
	}
	return found, nil
}

// resolveAll resolves the values of a map. Those that are secrets are redacted in messages.
func (h *Host) resolveAll(ctx context.Context, what string, values map[string]string) (map[string]string, error) {
	resolved := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		value, err := h.set.cfg.Resolve(ctx, values[name])
		if err != nil {
			return nil, unresolved(what, name, err)
		}
		if value != values[name] || isSecretName(name) {
			h.redact.addSecret(value)
		}
		resolved[name] = value
	}
	return resolved, nil
}

// unresolved returns the error for a setting that has no value.
func unresolved(what, name string, err error) error {
	return fault.New(fault.Invalid, "cannot be started: its %s %s has no value: %s", what, name, fault.Message(err)).
		WithHint("%s", fault.Hint(err))
}

// resolveURL resolves a URL. Secrets in it are removed from results.
//
// A reference is not always a secret there: it may be a host, a region or a version,
// which links in results contain. It is one if it names a file or a keyring entry, if
// its name or that of its query parameter is like that of a secret, or if it is the
// password.
func (h *Host) resolveURL(ctx context.Context, template string) (string, error) {
	var found strings.Builder
	var secrets []string
	for rest := template; ; {
		before, more, _ := strings.Cut(rest, "${")
		reference, after, ok := strings.Cut(more, "}")
		if !ok {
			found.WriteString(rest)
			break
		}
		value, err := h.set.cfg.Resolve(ctx, "${"+reference+"}")
		if err != nil {
			return "", err
		}
		if strings.Contains(reference, ":") || isSecretName(reference) || isSecretName(parameterName(before)) {
			secrets = append(secrets, value)
		}
		found.WriteString(before + value)
		rest = after
	}
	at, err := url.Parse(found.String())
	if err != nil || at.Host == "" { // the URL is rejected later
		return found.String(), nil
	}
	if password, ok := at.User.Password(); ok && found.String() != template {
		secrets = append(secrets, password)
	}
	for _, s := range secrets {
		if s != "" && !strings.Contains(at.Host, s) && !strings.Contains(s, at.Host) {
			h.redact.addSent(s)
		}
	}
	return found.String(), nil
}

// parameterName returns the name of the query parameter whose value begins after text.
func parameterName(text string) string {
	name, ok := strings.CutSuffix(text, "=")
	if !ok {
		return ""
	}
	return name[strings.LastIndexAny(name, "?&")+1:]
}
