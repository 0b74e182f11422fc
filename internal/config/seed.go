package config

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// The names that the first users have in their files and environment. Those
// that promise less isolation or another sandbox are refused, never replaced in
// silence; those without effect are named in a warning.

// variable adds the setting of one environment variable. Names that are not
// ours belong to somebody else.
func (l *loader) variable(name, text, from, dir string) {
	if text == "" {
		return
	}
	switch name {
	case "SANDPIPER_CONFIG": // read before there are settings
	case "LOG_LEVEL":
		l.logLevel(text, from, dir)
	case "LOG_FILE":
		l.add(setting{key: "log.file", text: text, from: from, dir: dir})
	case "MSB_SERVER_URL", "MSB_API_KEY":
		l.msb = append(l.msb, place(from, name))
	case "AGENTIC_SYSTEM_PATH":
		if l.project {
			l.warn(from + ": " + name + " has no effect in a project; set it in the environment")
			return
		}
		l.registry(text, from, dir)
	case "SERVERS_DIR":
		l.directory(&l.servers, setting{key: name, text: text, from: from, dir: dir})
	case "SKILLS_DIR":
		l.directory(&l.skills, setting{key: name, text: text, from: from, dir: dir})
	case "WORKSPACE_DIR":
		l.warn(from + ": " + name + noWorkspace)
	case "GUARDRAILS_ENABLED", "GUARDRAILS_STRICT_MODE":
		l.switched("guardrails."+strings.ToLower(strings.TrimPrefix(name, "GUARDRAILS_")), text, from, dir)
	default:
		if rest, ours := strings.CutPrefix(name, "SANDPIPER_"); ours {
			l.ours(rest, text, from, dir)
		}
	}
}

// place says where a variable or key stands.
func place(from, name string) string {
	if from == name { // it stands in the environment
		return name
	}
	return name + " (" + from + ")"
}

// switched takes a variable of the first users that is on or off, as they write it.
func (l *loader) switched(key, text, from, dir string) {
	s := setting{key: key, text: strings.ToLower(text), from: from, dir: dir}
	switch s.text {
	case "1", "yes", "on":
		s.text = "true"
	case "0", "no", "off":
		s.text = "false"
	case "true", "false":
	default:
		l.warn(fault.Message(wrong(s, "true or false")) + "; it is ignored")
		return
	}
	l.add(s)
}

// noWorkspace says why a directory of the person's is not the workspace: code
// could then read and change what nobody meant to give it, and what lies where
// mounts have to be would have to go.
const noWorkspace = " has no effect: code has a workspace of its own, in data_dir; copy what it needs there with sandpiper files put"

// registry takes the tool catalog and the skills beneath the first users'
// directory, if there are any. Their workspace stays where it is.
func (l *loader) registry(text, from, dir string) {
	root := filepath.Join(absolute(text, dir, nil), "mcp-servers", "code-execution-mcp")
	if at := filepath.Join(root, "tools_registry"); isDir(at) {
		l.catalogs = append(l.catalogs, at)
	}
	if at := filepath.Join(root, "skills"); isDir(at) && l.skills == "" {
		l.skills = at
	}
	if isDir(filepath.Join(root, "workspace")) {
		l.warn(from + ": workspace of AGENTIC_SYSTEM_PATH" + noWorkspace)
	}
}

// directory takes a directory of the first users. A name that other programs
// share may mean theirs.
func (l *loader) directory(to *string, s setting) {
	path := absolute(s.text, s.dir, l.env)
	if l.project && !inside(l.dir, path) {
		l.warn(s.from + ": " + s.key + " has no effect: a project can name a directory of its own only")
		return
	}
	if !isDir(path) {
		l.warn(s.from + ": " + s.key + " has no effect: there is no directory " + path)
		return
	}
	*to = path
}

func isDir(path string) bool {
	fi, err := os.Stat(path)
	return err == nil && fi.IsDir()
}

// ours adds a SANDPIPER_ variable. It is as strict as the file: a variable that
// does nothing is a mistake that nobody would see.
func (l *loader) ours(rest, text, from, dir string) {
	for _, key := range everyKey() {
		if variableOf(key) == rest {
			l.add(setting{key: key, text: text, from: from, dir: dir})
			return
		}
	}
	key := nearest(strings.ToLower(rest))
	l.errs = append(l.errs, fault.New(fault.Invalid, "%s: there is no variable SANDPIPER_%s; did you mean SANDPIPER_%s?", from, rest, variableOf(key)))
}

func variableOf(key string) string { return strings.ToUpper(strings.ReplaceAll(key, ".", "_")) }

// everyKey are the keys there are and those that will be, sorted.
func everyKey() []string {
	var list []string
	for k := range keys {
		list = append(list, k)
	}
	for k := range later {
		list = append(list, k)
	}
	slices.Sort(list)
	return list
}

// logLevel takes LOG_LEVEL, a name that many programs share: what it does not
// understand may be meant for another.
func (l *loader) logLevel(text, from, dir string) {
	s := setting{key: "log.level", text: text, from: from, dir: dir}
	if err := keys[s.key](&draft{}, s); err != nil {
		l.warn(fault.Message(err) + "; it is ignored")
		return
	}
	l.add(s)
}

// microsandbox is the sandbox of the first users.
const microsandbox = "microsandbox"

// refused refuses what asks for another sandbox or for a network. Microsandbox is
// asked for in the files of all first users: a warning says what is used instead.
func refused(s setting) error {
	switch s.key[strings.LastIndexByte(s.key, '.')+1:] {
	case "sandbox_type":
		if s.text == "process" || s.text == microsandbox {
			return nil
		}
		return fault.New(fault.Unavailable, "%s: sandbox_type %s asks for a sandbox that is not available in this version", s.from, s.text).
			WithHint("remove it; Sandpiper runs code in its own sandbox (sandbox.backend: process) and needs no server")
	case "allow_network_access":
		if s.kind == "" && (s.text == "false" || s.text == "") {
			return nil
		}
		return fault.New(fault.Unavailable, "%s: allow_network_access is not available: code in the sandbox reaches no network", s.from).
			WithHint("remove allow_network_access; put the data into the workspace instead")
	}
	return nil
}

// wantsMicrosandbox reports whether s asks for the sandbox of the first users.
func wantsMicrosandbox(s setting) bool {
	return s.text == microsandbox && s.key[strings.LastIndexByte(s.key, '.')+1:] == "sandbox_type"
}

// replaced says once what runs code in place of microsandbox.
func (c *Config) replaced(wanted []string) {
	if len(wanted) > 0 {
		c.warn(strings.Join(wanted, ", ") + ": microsandbox is not available; code runs in Sandpiper's own sandbox (sandbox.backend: process), which needs no server")
	}
}

// seedKeys are the keys of the first users' config.yaml, and why each has no effect
// ("" says nothing). Those of guardrails are ours too.
var seedKeys = map[string]string{
	"execution.workspace_dir":        strings.TrimSpace(noWorkspace),
	"execution.servers_dir":          "",
	"execution.skills_dir":           "",
	"execution.sandbox_type":         "",
	"execution.sandbox_image":        "",
	"execution.allow_network_access": "",
	"mcp_servers":                    "",
}

// seedIdle are the sections of the first users that nothing here uses.
var seedIdle = map[string]string{
	"plugins":   "there are no plugins",
	"workflows": "there are no workflows",
	"logging":   "write log: {level: …, file: …} instead",
}

// isSeed reports whether settings are those of the first users' config.yaml. Its
// section guardrails is also ours, and theirs only in a file of that name.
func isSeed(path string, settings []setting) bool {
	theirName := filepath.Base(path) == "config.yaml"
	return slices.ContainsFunc(settings, func(s setting) bool {
		section, _, _ := strings.Cut(s.key, ".")
		return section == "execution" || section == "mcp_servers" || theirName && isSeedSection(section)
	})
}

// seed adds the settings of the first users' config.yaml.
func (l *loader) seed(settings []setting) {
	idle := map[string]bool{}
	for _, s := range settings {
		if err := refused(s); err != nil {
			l.errs = append(l.errs, err)
			continue
		}
		section, _, _ := strings.Cut(s.key, ".")
		warning, ok := seedKeys[s.key]
		switch {
		case wantsMicrosandbox(s):
			l.msb = append(l.msb, place(s.from, s.key))
		case s.key == "mcp_servers":
			s.key = "servers"
			l.add(s)
		case s.key == "execution.servers_dir" && s.text != "":
			l.directory(&l.servers, s)
		case s.key == "execution.skills_dir" && s.text != "":
			l.directory(&l.skills, s)
		case seedIdle[section] != "":
			if !idle[section] {
				l.warn(s.from + ": " + section + " has no effect: " + seedIdle[section])
			}
			idle[section] = true
		case ok:
			if warning != "" && s.text != "" {
				l.warn(s.from + ": " + s.key + " " + warning)
			}
		case s.key == "execution":
			if s.text != "" {
				l.errs = append(l.errs, fault.New(fault.Invalid, "%s: execution must hold keys such as servers_dir, skills_dir", s.from))
			}
		case knownKey(s.key):
			l.add(s)
		default:
			l.errs = append(l.errs, fault.New(fault.Invalid, "%s: there is no key %q; did you mean %q?", s.from, s.key, nearestOf(s.key, joined(known(keys), known(seedKeys)))))
		}
	}
}

// known are the keys of a table.
func known[V any](table map[string]V) map[string]bool {
	all := map[string]bool{}
	for key := range table {
		all[key] = true
	}
	return all
}
