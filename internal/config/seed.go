package config

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// Names from the files and environment of the seed systems. Settings that ask for less
// isolation or another sandbox are errors; settings without effect are warnings.

// variable adds the setting of one environment variable, and ignores variables of other
// programs.
func (l *loader) variable(name, text, from, dir string) {
	if text == "" {
		return
	}
	switch name {
	case "SANDPIPER_CONFIG": // read by find
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
		l.unusedWorkspace(setting{key: name, text: text, from: from, dir: dir})
	case "GUARDRAILS_ENABLED", "GUARDRAILS_STRICT_MODE":
		l.switched("guardrails."+strings.ToLower(strings.TrimPrefix(name, "GUARDRAILS_")), text, from, dir)
	default:
		if rest, ours := strings.CutPrefix(name, "SANDPIPER_"); ours {
			l.ours(rest, text, from, dir)
		}
	}
}

// place describes the position of a variable or key.
func place(from, name string) string {
	if from == name { // an environment variable
		return name
	}
	return name + " (" + from + ")"
}

// switched adds a boolean variable of the seed systems.
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

// unusedWorkspace warns that a directory of the user is not used as the workspace, if it has
// anything in it: code could read and change all of it, and entries at mount points would be in
// the way.
func (l *loader) unusedWorkspace(s setting) {
	path := absolute(s.text, s.dir, l.env)
	if entries, err := os.ReadDir(path); err != nil || len(entries) == 0 || slices.Contains(l.unused, path) {
		return
	}
	l.unused = append(l.unused, path)
	l.warn(s.from + ": " + s.key + " has no effect: code has a workspace of its own; sandpiper files put " + path +
		" --as . copies what is there, once")
}

// registry adds the tool catalog and skills in AGENTIC_SYSTEM_PATH, if they exist. The
// workspace there is not used.
func (l *loader) registry(text, from, dir string) {
	root := filepath.Join(absolute(text, dir, nil), "mcp-servers", "code-execution-mcp")
	if at := filepath.Join(root, "tools_registry"); isDir(at) {
		l.catalogs = append(l.catalogs, at)
	}
	if at := filepath.Join(root, "skills"); isDir(at) && l.skills == "" {
		l.skills = at
	}
	l.unusedWorkspace(setting{key: "workspace of AGENTIC_SYSTEM_PATH", text: filepath.Join(root, "workspace"), from: from})
}

// directory adds a directory of the seed systems. A variable that other programs also
// use may name one of theirs.
func (l *loader) directory(to *string, s setting) {
	path := absolute(s.text, s.dir, l.env)
	if l.project && !inside(l.dir, path) {
		l.warn(s.from + ": " + s.key + " has no effect: a project can only name its own directories")
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

// ours adds a SANDPIPER_ variable. An unknown one is an error, as in the file.
func (l *loader) ours(rest, text, from, dir string) {
	for _, key := range slices.Sorted(maps.Keys(l.table.keys)) {
		if variableOf(key) == rest {
			l.add(setting{key: key, text: text, from: from, dir: dir})
			return
		}
	}
	key := nearestOf(strings.ToLower(rest), l.table.keys)
	l.errs = append(l.errs, fault.New(fault.Invalid, "%s: there is no variable SANDPIPER_%s; did you mean SANDPIPER_%s?", from, rest,
		variableOf(key)))
}

func variableOf(key string) string { return strings.ToUpper(strings.ReplaceAll(key, ".", "_")) }

// logLevel adds LOG_LEVEL. Other programs use it too, so an invalid value is a warning.
func (l *loader) logLevel(text, from, dir string) {
	s := setting{key: "log.level", text: text, from: from, dir: dir}
	if err := l.table.keys[s.key].read(&draft{}, s); err != nil {
		l.warn(fault.Message(err) + "; it is ignored")
		return
	}
	l.add(s)
}

// microsandbox is the sandbox of the seed systems.
const microsandbox = "microsandbox"

// refused rejects settings that select a sandbox that is not among kinds.
func refused(s setting, kinds []Sandbox) error {
	if s.key[strings.LastIndexByte(s.key, '.')+1:] != "sandbox_type" || s.text == "process" || ofSeed(s, kinds) != s {
		return nil
	}
	return fault.New(fault.Unavailable, "%s: sandbox_type %s selects a sandbox that is not available in this version", s.from, s.text).
		WithHint("remove it; Sandpiper runs code in its own sandbox (sandbox.backend: process) and needs no server")
}

// ofSeed returns the setting that s of a seed file means, which may select one of kinds.
func ofSeed(s setting, kinds []Sandbox) setting {
	if s.key[strings.LastIndexByte(s.key, '.')+1:] != "sandbox_type" {
		return s
	}
	for _, k := range kinds {
		if k.Former != "" && k.Former == s.text {
			s.key, s.text, s.seed = "sandbox.backend", k.Name, s.key
			break
		}
	}
	return s
}

// warnReplaced adds one warning for the settings of a server of microsandbox.
func warnReplaced(c *Config, unused []string) {
	if len(unused) == 0 {
		return
	}
	instead := ""
	for _, k := range c.Features.sandboxes() {
		if k.Former == microsandbox {
			instead = fmt.Sprintf(" (sandbox.backend: %s %s)", k.Name, k.About)
		}
	}
	c.Warn(strings.Join(unused, ", ") + ": no effect, since Sandpiper starts sandboxes itself and needs no server" + instead)
}

// seedKeys are the keys of the seed's config.yaml. Keys of guardrails are Sandpiper's too.
var seedKeys = map[string]bool{
	"execution.workspace_dir":        true,
	"execution.servers_dir":          true,
	"execution.skills_dir":           true,
	"execution.sandbox_type":         true,
	"execution.sandbox_image":        true,
	"execution.allow_network_access": true,
	"mcp_servers":                    true,
}

// seedIdle are the seed's sections without effect.
var seedIdle = map[string]string{
	"plugins":   "connect an MCP server in servers, or add a hook to guardrails.hooks",
	"workflows": "save its files with `sandpiper workflow save FILE`, or put them in the directory that workflows names in sandpiper.yaml",
	"logging":   "write log: {level: …, file: …} instead",
}

// isSeed reports whether the settings are from a seed's config.yaml. The section
// guardrails alone, which Sandpiper has too, counts only in a file of that name.
func isSeed(path string, settings []setting) bool {
	theirName := filepath.Base(path) == "config.yaml"
	return slices.ContainsFunc(settings, func(s setting) bool {
		section, _, _ := strings.Cut(s.key, ".")
		return section == "execution" || section == "mcp_servers" || theirName && isSeedSection(section)
	})
}

// seed adds the settings of a seed's config.yaml.
func (l *loader) seed(settings []setting) {
	idle, kinds := map[string]bool{}, l.table.sandboxes
	for _, s := range settings {
		if err := refused(s, kinds); err != nil {
			l.errs = append(l.errs, err)
			continue
		}
		section, _, _ := strings.Cut(s.key, ".")
		switch {
		case ofSeed(s, kinds) != s:
			l.add(ofSeed(s, kinds))
		case s.key == "mcp_servers":
			s.key = "servers"
			l.add(s)
		case s.key == "execution.servers_dir" && s.text != "":
			l.directory(&l.servers, s)
		case s.key == "execution.skills_dir" && s.text != "":
			l.directory(&l.skills, s)
		case s.key == "execution.workspace_dir" && s.text != "":
			l.unusedWorkspace(s)
		case s.key == "execution.allow_network_access":
			if no, ok := s.node.(*ast.BoolNode); s.node != nil && (!ok || no.Value) {
				s.key = "sandbox.allow_network_access"
				l.add(s)
			}
		case seedIdle[section] != "":
			if !idle[section] {
				l.warn(s.from + ": " + section + " has no effect: " + seedIdle[section])
			}
			idle[section] = true
		case seedKeys[s.key]:
		case s.key == "execution":
			if s.text != "" {
				l.errs = append(l.errs, fault.New(fault.Invalid, "%s: execution must contain keys such as servers_dir, skills_dir", s.from))
			}
		case l.table.known(s.key):
			l.add(s)
		default:
			l.errs = append(l.errs, fault.New(fault.Invalid, "%s: there is no key %q%s", s.from, s.key,
				suggestion(s.key, joined(known(l.table.keys), seedKeys))))
		}
	}
}

// known returns the keys of a table.
func known[V any](table map[string]V) map[string]bool {
	all := map[string]bool{}
	for key := range table {
		all[key] = true
	}
	return all
}
