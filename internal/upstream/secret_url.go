package upstream

import (
	"context"
	"net/url"
	"strings"
)

// resolveURL resolves a URL. Secrets in it are removed from results.
//
// A reference is not always a secret there: it may be a host, a region or a version,
// which links in results contain. It is one if it names a file or a keyring entry, if
// its name or that of its query parameter is like that of a secret, or if it is the
// password.
func (v *server) resolveURL(ctx context.Context, template string) (string, error) {
	var found strings.Builder
	var secrets []string
	for rest := template; ; {
		before, more, _ := strings.Cut(rest, "${")
		reference, after, ok := strings.Cut(more, "}")
		if !ok {
			found.WriteString(rest)
			break
		}
		value, err := v.set.cfg.Resolve(ctx, "${"+reference+"}")
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
			v.redact.addSent(s)
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
