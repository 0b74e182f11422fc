package clientconfig

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/config/literal"
	"github.com/sandpiper-mcp/sandpiper/internal/lazyregexp"
)

// entry is the configuration of one server in a file.
type entry struct {
	from     Origin
	fields   map[string]any
	disabled string           // the reason if the client lists it as disabled elsewhere
	inputs   map[string]input // declared in the file, by id
}

// reader fills a Server from an entry of any client. The clients have different
// keys, but a key has the same meaning in all of them, except Gemini CLI's url. The command is a
// list in opencode, and may be an object in Zed.
type reader struct {
	entry
	env    Env
	server *Server
	reason string // why the entry cannot be imported
}

// target reads the command line and the URL, which identify an entry of Sandpiper. It does
// not translate references: that may fail, and read does it later.
func (r *reader) target() {
	r.server.Command, _ = r.fields["command"].(string)
	r.server.Args = texts(r.fields["args"])
	switch command := r.fields["command"].(type) {
	case []any:
		if all := texts(command); len(all) > 0 {
			r.server.Command, r.server.Args = all[0], all[1:]
		}
	case map[string]any:
		r.server.Command, _ = command["path"].(string)
		r.server.Args = texts(command["args"])
		r.fields["env"] = command["env"]
	}
	r.server.URL, _ = r.fields["url"].(string)
	if u, ok := r.fields["serverUrl"].(string); ok {
		r.server.URL = u
	}
	if u, ok := r.fields["httpUrl"].(string); ok {
		r.server.URL = u
	}
}

// read reads all other settings and translates all references.
func (r *reader) read() {
	s := r.server
	r.transport()
	s.Command, s.URL = r.text(s.Command), r.text(s.URL)
	for i := range s.Args {
		s.Args[i] = r.text(s.Args[i])
	}
	if _, isList := r.fields["args"].([]any); r.fields["args"] != nil && !isList {
		r.reason = "its args are not a list"
	}
	s.Env = r.table("env", "environment")
	r.envFile()
	for _, name := range namesOf(r.fields["env_vars"]) {
		set(&s.Env, name, "${"+name+"}")
	}
	s.Headers = r.table("headers", "http_headers")
	for header, name := range stringsOf(r.fields["env_http_headers"]) {
		set(&s.Headers, header, "${"+name+"}")
	}
	if name, ok := r.fields["bearer_token_env_var"].(string); ok {
		set(&s.Headers, "Authorization", "Bearer ${"+name+"}")
	}
	r.dir()
	r.timeout()
	r.notes()
	if s.URL != "" {
		s.Dir, s.Env, s.Args = "", nil, nil
	} else {
		s.Headers, s.Transport = nil, ""
	}
}

// transport reads the transport from its own key. Gemini CLI instead has a key of
// the URL for each transport: url for sse, httpUrl for http.
func (r *reader) transport() {
	name, _ := r.fields["type"].(string)
	if name == "" {
		name, _ = r.fields["transport"].(string)
	}
	switch strings.ToLower(strings.NewReplacer("-", "", "_", "").Replace(name)) {
	case "", "stdio", "local":
		if r.from.File.Client.ID == "gemini" && r.fields["httpUrl"] == nil && r.fields["url"] != nil {
			r.server.Transport = "sse"
		}
		if r.fields["httpUrl"] != nil {
			r.server.Transport = "http"
		}
	case "http", "streamablehttp", "streaminghttp", "remote":
		r.server.Transport = "http"
	case "sse":
		r.server.Transport = "sse"
	default:
		r.reason = fmt.Sprintf("its transport %.20q is not supported", name)
	}
}

// dir reads the working directory. It defaults to the project.
func (r *reader) dir() {
	dir, _ := r.fields["cwd"].(string)
	dir = r.text(dir)
	switch {
	case dir == "":
		dir, r.server.defaultDir = r.from.Project, true
	case strings.Contains(dir, "${"):
		r.note("its cwd is not imported: it refers to a variable, which sandpiper.yaml does not support")
		dir = ""
	case !filepath.IsAbs(dir) && r.from.Project != "":
		dir = filepath.Join(r.from.Project, dir)
	case !filepath.IsAbs(dir):
		r.note("its cwd is not imported: it is relative to an unknown directory")
		dir = ""
	}
	r.server.Dir = dir
}

// timeout reads the timeout, in seconds for Codex and in milliseconds otherwise, up to a
// day.
func (r *reader) timeout() {
	const most = 24 * time.Hour
	if d, ok := number(r.fields["timeout"]); ok && d >= 1 {
		r.server.Timeout = time.Duration(min(d*float64(time.Millisecond), float64(most)))
	}
	if d, ok := number(r.fields["tool_timeout_sec"]); ok && d > 0 {
		r.server.Timeout = time.Duration(min(d*float64(time.Second), float64(most)))
	}
}

// notImported lists settings that are not imported and may matter for safety.
var notImported = []struct {
	sentence string
	keys     []string
}{
	{"its tool filter (%s) is not imported; all its tools can be called",
		[]string{"enabled_tools", "disabled_tools", "includeTools", "excludeTools", "tools"}},
	{"its authentication (%s) is not imported", []string{"oauth", "auth", "headersHelper", "authProviderType"}},
	{"its sandbox (%s) is not imported", []string{"sandboxEnabled", "sandbox", "experimental_environment"}},
}

func (r *reader) notes() {
	for _, n := range notImported {
		for _, key := range n.keys {
			if v, ok := r.fields[key]; ok && v != false {
				r.note(fmt.Sprintf(n.sentence, key))
			}
		}
	}
}

func (r *reader) note(sentence string) { r.server.Notes = append(r.server.Notes, sentence) }

// opencodeVariable matches a reference to a variable of opencode.
var opencodeVariable = lazyregexp.New(`\{env:([A-Za-z_][A-Za-z0-9_]*)\}`)

// text translates the references in a value.
func (r *reader) text(value string) string {
	if r.from.File.Client.ID == "opencode" {
		value = opencodeVariable().ReplaceAllString(value, "$${$1}")
	}
	out, err := r.translate(value)
	if err != nil && r.reason == "" {
		r.reason = err.Error()
	}
	return out
}

// table reads the tables of the given keys as one.
func (r *reader) table(keys ...string) map[string]string {
	var all map[string]string
	for _, key := range keys {
		for name, value := range stringsOf(r.fields[key]) {
			set(&all, name, r.text(value))
		}
	}
	return all
}

// envFile reads the names of the variables in the file that the key envFile names. All
// values are treated as secrets.
func (r *reader) envFile() {
	path, _ := r.fields["envFile"].(string)
	if path == "" {
		return
	}
	path = r.text(path)
	switch {
	case filepath.IsAbs(path):
	case r.from.Project == "":
		r.note("its envFile is not imported: it is relative to an unknown directory")
		return
	default:
		path = filepath.Join(r.from.Project, path)
	}
	text, err := readFile(path)
	if err != nil || text == nil || len(text) > maxEnvFile {
		r.note("its envFile is not imported: it cannot be read")
		return
	}
	for line := range strings.Lines(string(text)) {
		name, _, ok := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "export "), "=")
		name = strings.TrimSpace(name)
		if _, configured := r.server.Env[name]; ok && !configured && literal.IsIdentifier(name) {
			set(&r.server.Env, name, "${"+name+"}")
			r.server.inputs = append(r.server.inputs, input{name, "its value is in " + path})
		}
	}
}

// maxEnvFile is the greatest size of an envFile in bytes.
const maxEnvFile = 1 << 20

// set sets a key of a map that may be nil.
func set(m *map[string]string, key, value string) {
	if *m == nil {
		*m = map[string]string{}
	}
	(*m)[key] = value
}

// maxValue limits the length of a value, in bytes.
const maxValue = 4 << 10

// bareName matches $NAME, which Gemini CLI only supports.
var bareName = lazyregexp.New(`\$([A-Za-z_][A-Za-z0-9_]*)`)

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
	case kind == "env" && literal.IsIdentifier(name):
		return "${" + name + "}", true
	case kind == "input" && name != "":
		variable := literal.EnvName(name)
		r.server.inputs = append(r.server.inputs, input{variable, r.inputs[name].description})
		return "${" + variable + "}", true
	case strings.HasPrefix(name, "-") && literal.IsIdentifier(kind):
		if r.env.variable(kind) != "" {
			return "${" + kind + "}", true
		}
		r.note("$" + kind + " is not set; its default is used")
		return name[1:], !strings.Contains(name, "$")
	}
	if value, ok := r.predefined(body); ok {
		return value, value != ""
	}
	return "${" + body + "}", literal.IsIdentifier(body)
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
