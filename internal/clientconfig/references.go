package clientconfig

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// reference is ours.
var reference = regexp.MustCompile(`\$\{[A-Za-z_][A-Za-z0-9_]*\}`)

var identifiers = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

func identifier(s string) bool { return identifiers.MatchString(s) }

// bare is $NAME, which Gemini CLI alone understands.
var bare = regexp.MustCompile(`\$([A-Za-z_][A-Za-z0-9_]*)`)

// translate puts our references in place of a client's.
func (r *reader) translate(value string) (string, error) {
	if len(value) > longest {
		return "", fmt.Errorf("it holds a value of %d bytes, and %d are the most", len(value), longest)
	}
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(value, "${")
		if r.from.File.Client.ID == "gemini" {
			before = bare.ReplaceAllString(before, "$${$1}")
		}
		b.WriteString(before)
		if !found {
			return b.String(), nil
		}
		body, after, closed := strings.Cut(rest, "}")
		if !closed {
			return "", fmt.Errorf("it holds ${ without an end, which cannot be said here")
		}
		meant, ok := r.meaning(body)
		if !ok {
			name, _, _ := strings.Cut(body, ":-") // the default may be a secret
			return "", fmt.Errorf("it refers to ${%.40s}, which only %s knows", name, r.from.File.Client.Name)
		}
		b.WriteString(meant)
		value = after
	}
}

// meaning is what stands for one reference: ours, or the text it means.
func (r *reader) meaning(body string) (string, bool) {
	kind, name, _ := strings.Cut(body, ":")
	switch {
	case kind == "env" && identifier(name):
		return "${" + name + "}", true
	case kind == "input" && name != "":
		about := r.inputs[name]
		variable := screaming(name)
		r.server.inputs = append(r.server.inputs, input{variable, about.description})
		return "${" + variable + "}", true
	case strings.HasPrefix(name, "-") && identifier(kind):
		if r.env.variable(kind) != "" {
			return "${" + kind + "}", true
		}
		r.note("$" + kind + " is not set, so its default is taken")
		return name[1:], !strings.Contains(name, "$")
	}
	if meant, ok := r.place(body); ok {
		return meant, meant != ""
	}
	return "${" + body + "}", identifier(body)
}

// place is what a client's name for a place means; "" if it means none here.
func (r *reader) place(name string) (string, bool) {
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

// screaming makes the name of an environment variable of any name.
func screaming(name string) string {
	var b strings.Builder
	lower := false // the character before was a lower-case letter or a digit
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
