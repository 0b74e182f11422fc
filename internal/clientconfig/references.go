package clientconfig

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/lazyregexp"
)

var (
	reference  = lazyregexp.New(`\$\{[A-Za-z_][A-Za-z0-9_]*\}`) // in the syntax of sandpiper.yaml
	identifier = lazyregexp.New(`^[A-Za-z_][A-Za-z0-9_]*$`)
	bareName   = lazyregexp.New(`\$([A-Za-z_][A-Za-z0-9_]*)`) // $NAME, supported by Gemini CLI only
)

func isIdentifier(s string) bool { return identifier().MatchString(s) }

// translate replaces the references in the client's syntax.
func (r *reader) translate(value string) (string, error) {
	if len(value) > maxValue {
		return "", fmt.Errorf("it has a value of %d bytes; the limit is %d", len(value), maxValue)
	}
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(value, "${")
		if r.from.File.Client.ID == "gemini" {
			before = bareName().ReplaceAllString(before, "$${$1}")
		}
		b.WriteString(before)
		if !found {
			return b.String(), nil
		}
		body, after, closed := strings.Cut(rest, "}")
		if !closed {
			return "", fmt.Errorf("it has a ${ without }")
		}
		translated, ok := r.translateOne(body)
		if !ok {
			name, _, _ := strings.Cut(body, ":-") // the default may be a secret
			return "", fmt.Errorf("it refers to ${%.40s}, which only %s supports", name, r.from.File.Client.Name)
		}
		b.WriteString(translated)
		value = after
	}
}

// translateOne translates the body of one reference to a reference of ours or to
// its value.
func (r *reader) translateOne(body string) (string, bool) {
	kind, name, _ := strings.Cut(body, ":")
	switch {
	case kind == "env" && isIdentifier(name):
		return "${" + name + "}", true
	case kind == "input" && name != "":
		variable := envName(name)
		r.server.inputs = append(r.server.inputs, input{variable, r.inputs[name].description})
		return "${" + variable + "}", true
	case strings.HasPrefix(name, "-") && isIdentifier(kind):
		if r.env.variable(kind) != "" {
			return "${" + kind + "}", true
		}
		r.note("$" + kind + " is not set; its default is used")
		return name[1:], !strings.Contains(name, "$")
	}
	if value, ok := r.predefined(body); ok {
		return value, value != ""
	}
	return "${" + body + "}", isIdentifier(body)
}

// predefined returns the value of a client's predefined variable; "" if it has
// none outside the client.
func (r *reader) predefined(name string) (string, bool) {
	project := r.from.Project
	switch name {
	case "userHome":
		return r.env.Home, true
	case "workspaceFolder", "workspaceRoot", "cwd", "CLAUDE_PROJECT_DIR":
		return project, true
	case "workspaceFolderBasename":
		if project == "" {
			return "", true
		}
		return filepath.Base(project), true
	case "/", "pathSeparator":
		return string(os.PathSeparator), true
	}
	return "", false
}

// envName converts a name to the name of an environment variable in capitals.
func envName(name string) string {
	var b strings.Builder
	lower := false // the previous character was a lower-case letter or a digit
	for _, c := range name {
		upper := c >= 'A' && c <= 'Z'
		small := c >= 'a' && c <= 'z' || c >= '0' && c <= '9'
		switch {
		case upper && lower:
			b.WriteString("_" + string(c))
		case upper:
			b.WriteRune(c)
		case small:
			b.WriteString(strings.ToUpper(string(c)))
		case b.Len() > 0 && !strings.HasSuffix(b.String(), "_"):
			b.WriteByte('_')
		}
		lower = small
	}
	out := strings.Trim(b.String(), "_")
	if out == "" || out[0] >= '0' && out[0] <= '9' {
		return strings.TrimSuffix("MCP_"+out, "_")
	}
	return out
}
