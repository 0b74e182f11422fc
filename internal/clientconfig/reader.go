package clientconfig

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// reader fills a server from an entry in the words of any client: they differ in
// what they have and not in what a word means, but for Gemini's url.
type reader struct {
	entry
	env    Env
	server *Server
	why    string // it cannot be taken
}

// where reads what is started or called, as it stands.
func (r *reader) where() {
	r.server.Command, _ = r.fields["command"].(string)
	r.server.Args = texts(r.fields["args"])
	r.server.URL, _ = r.fields["url"].(string)
	if u, ok := r.fields["httpUrl"].(string); ok {
		r.server.URL = u
	}
}

func (r *reader) read() {
	s := r.server
	r.transport()
	s.Command, s.URL = r.text(s.Command), r.text(s.URL)
	for i := range s.Args {
		s.Args[i] = r.text(s.Args[i])
	}
	if _, isList := r.fields["args"].([]any); r.fields["args"] != nil && !isList {
		r.why = "its args are no list"
	}
	s.Env = r.table("env")
	r.files()
	for _, name := range namesOf(r.fields["env_vars"]) {
		s.Env = with(s.Env, name, "${"+name+"}")
	}
	s.Headers = r.table("headers", "http_headers")
	for header, name := range stringsOf(r.fields["env_http_headers"]) {
		s.Headers = with(s.Headers, header, "${"+name+"}")
	}
	if name, ok := r.fields["bearer_token_env_var"].(string); ok {
		s.Headers = with(s.Headers, "Authorization", "Bearer ${"+name+"}")
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

// transport is said by a word, or in Gemini's case by the name of the key.
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
		r.why = fmt.Sprintf("its transport %.20q is not known here", name)
	}
}

// dir is the working directory. Programs of a project start in it.
func (r *reader) dir() {
	dir, _ := r.fields["cwd"].(string)
	dir = r.text(dir)
	switch {
	case dir == "":
		dir, r.server.implied = r.from.Project, true
	case strings.Contains(dir, "${"):
		r.note("its cwd is a variable's value, which is not possible here, and left out")
		dir = ""
	case !filepath.IsAbs(dir) && r.from.Project != "":
		dir = filepath.Join(r.from.Project, dir)
	case !filepath.IsAbs(dir):
		r.note("its cwd is relative to nothing that is known, and left out")
		dir = ""
	}
	r.server.Dir = dir
}

// timeout is in milliseconds, but in Codex.
func (r *reader) timeout() {
	if d, ok := number(r.fields["timeout"]); ok && d >= 1 {
		r.server.Timeout = time.Duration(d * float64(time.Millisecond))
	}
	if d, ok := number(r.fields["tool_timeout_sec"]); ok && d > 0 {
		r.server.Timeout = time.Duration(d * float64(time.Second))
	}
	if r.server.Timeout > 24*time.Hour {
		r.server.Timeout = 24 * time.Hour
	}
}

// notes says what has no effect here, where somebody may rely on it.
func (r *reader) notes() {
	for _, key := range []string{"enabled_tools", "disabled_tools", "includeTools", "excludeTools", "tools"} {
		if _, there := r.fields[key]; there {
			r.note("only some of its tools are allowed there (" + key + "); here all are")
		}
	}
	for _, key := range []string{"oauth", "auth", "headersHelper", "authProviderType"} {
		if _, there := r.fields[key]; there {
			r.note("how it signs in there (" + key + ") is not taken")
		}
	}
	for _, key := range []string{"sandboxEnabled", "sandbox", "experimental_environment"} {
		if v, there := r.fields[key]; there && v != false {
			r.note("what confines it there (" + key + ") is not taken")
		}
	}
}

func (r *reader) note(sentence string) { r.server.Notes = append(r.server.Notes, sentence) }

// text translates the references in a value.
func (r *reader) text(value string) string {
	out, err := r.translate(value)
	if err != nil && r.why == "" {
		r.why = err.Error()
	}
	return out
}

// table reads names with values.
func (r *reader) table(keys ...string) map[string]string {
	var all map[string]string
	for _, key := range keys {
		for name, value := range stringsOf(r.fields[key]) {
			all = with(all, name, r.text(value))
		}
	}
	return all
}

// files takes from envFile the names of what stands there: their values are
// secrets until somebody says otherwise.
func (r *reader) files() {
	path, _ := r.fields["envFile"].(string)
	if path == "" {
		return
	}
	path = r.text(path)
	if !filepath.IsAbs(path) && r.from.Project != "" {
		path = filepath.Join(r.from.Project, path)
	}
	text, err := os.ReadFile(path)
	if err != nil || len(text) > 1<<20 {
		r.note("its envFile cannot be read, and what it says is left out")
		return
	}
	for line := range strings.Lines(string(text)) {
		name, _, ok := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "export "), "=")
		name = strings.TrimSpace(name)
		if _, given := r.server.Env[name]; ok && !given && identifier(name) {
			r.server.Env = with(r.server.Env, name, "${"+name+"}")
			r.server.inputs = append(r.server.inputs, input{name, "as in " + path})
		}
	}
}

func with(m map[string]string, name, value string) map[string]string {
	if m == nil {
		m = map[string]string{}
	}
	m[name] = value
	return m
}
