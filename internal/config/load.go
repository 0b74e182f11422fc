package config

import (
	"cmp"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/config/section"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// Sources are the inputs of Load.
type Sources struct {
	Dir      string            // working directory, absolute; required
	File     string            // configuration file; "" means those of the user and the project
	Text     string            // of a configuration file in Dir, instead of reading one; "" means none
	Environ  []string          // as os.Environ returns it
	Flags    map[string]string // key -> text, only flags that were set
	Features []Section         // of the features of the program
	Assume   map[string]string // project files to treat as trusted: path -> hash; for a preview
}

// Load reads and merges all sources.
func Load(src Sources) (*Config, error) {
	env := environment(src.Environ)
	l := &loader{src: src, table: newTable(src.Features), env: env, dotenv: map[string]string{}}
	l.collect()
	d := draft{dirs: directories(env), env: maps.Clone(l.dotenv), given: givenKeys{}}
	maps.Copy(d.env, env)
	section.SetDefaults(&d.Config)
	d.Features = newFeatures(l.table).withDefaults()
	for _, s := range l.table.sandboxes {
		d.Policy.Sandboxes = append(d.Policy.Sandboxes, s.Sandbox)
	}
	if err := d.applyAll(l); err != nil {
		return nil, err
	}
	own := func(name string) (string, bool) {
		if v, ok := env[name]; ok {
			return v, true
		}
		v, ok := l.dotenv[name]
		return v, ok
	}
	if err := d.Features.complete(Given{&d, env, l.dotenv}); err != nil {
		return nil, err
	}
	telemetryVariables(&d.Telemetry, d.given, own, l.warn)
	c, err := d.finish()
	if err != nil {
		return nil, err
	}
	if err := c.Features.check(); err != nil {
		return nil, err
	}
	c.placePackages(cmp.Or(l.dir, c.DataDir))
	c.ServersDir, c.SkillsDir = l.servers, l.skills
	c.Files, c.Warnings, c.Lookup = l.files, append(l.warnings, c.Warnings...), own
	c.Catalogs = append(c.Catalogs, l.catalogs...)
	raw := *c
	raw.PII.TTL, raw.Features = maps.Clone(c.PII.TTL), c.Features.clone()
	project, err := c.addProject(l, &d)
	if err != nil {
		return nil, err
	}
	if err := readTenants(d.given, c, raw, project); err != nil {
		return nil, err
	}
	if err := c.Features.loaded(c); err != nil {
		return nil, err
	}
	c.Given = shown(d.given)
	c.Sections, c.Keys = sectionHashes(d.given), keyHashes(d.given)
	return c, nil
}

// Warn adds a sentence to Warnings.
func (c *Config) Warn(sentence string) { c.Warnings = append(c.Warnings, sentence) }

// loader collects settings in increasing precedence.
type loader struct {
	src      Sources
	table    *table
	env      map[string]string
	dotenv   map[string]string // variables of .env
	dir      string            // of the configuration file; "" if there is no configuration directory
	project  bool              // reads files of a project
	settings []setting
	files    []string
	catalogs []string // static catalogs of AGENTIC_SYSTEM_PATH
	servers  string   // SERVERS_DIR
	skills   string
	unused   []string // workspaces of the seed systems, for which there is a warning
	warnings []string
	msb      []string // settings that select microsandbox, with positions
	errs     []error
}

// collect reads the user's own sources: the configuration file, the .env in its
// directory, the environment and flags.
func (l *loader) collect() {
	l.dir = directories(l.env).config
	switch {
	case l.src.Text != "":
		settings, err := l.table.settingsIn(filepath.Join(l.src.Dir, textName), []byte(l.src.Text))
		if err != nil {
			l.errs = append(l.errs, err)
		}
		l.take(textName, settings)
	case !l.readFile():
		return
	}
	l.readDotenv()
	names := make([]string, 0, len(l.env))
	for name := range l.env {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		l.variable(name, l.env[name], name, l.src.Dir)
	}
	for key, text := range l.src.Flags {
		l.add(setting{key: key, text: text, from: "--" + flagOf(key), dir: l.src.Dir})
	}
}

// textName is the name of Sources.Text in messages.
const textName = "configuration"

// readFile reads the configuration file, if there is one. It returns false if it cannot be
// found.
func (l *loader) readFile() bool {
	path, err := l.find()
	if err != nil {
		l.errs = append(l.errs, err)
		return false
	}
	if path == "" {
		return true
	}
	l.dir = filepath.Dir(path)
	settings, err := l.table.parseYAML(path)
	if err != nil {
		l.errs = append(l.errs, err)
		return true
	}
	l.files = append(l.files, path)
	l.take(path, settings)
	return true
}

func (l *loader) add(s setting) { l.settings = append(l.settings, s) }

func (l *loader) warn(sentence string) { l.warnings = append(l.warnings, sentence) }

// find returns the configuration file to read, "" for none.
func (l *loader) find() (string, error) {
	if path, from := l.named(); path != "" {
		if _, err := os.Stat(path); isUnreadable(err) {
			return "", unreadable(path, err)
		} else if err != nil {
			return "", fault.Wrap(fault.NotFound, err, "there is no configuration file %s (%s)", path, from).
				WithHint("correct the path, or create the file with `sandpiper init`")
		}
		return path, nil
	}
	if dir := directories(l.env).config; dir != "" {
		path := filepath.Join(dir, "sandpiper.yaml")
		info, err := os.Stat(path)
		if isUnreadable(err) { // its policy may be stricter than the default one
			return "", unreadable(path, err)
		}
		if err == nil && info.Mode().IsRegular() {
			return path, nil
		}
	}
	return "", nil
}

// named returns the path of the configuration file that a flag or variable names, and which of them;
// "" if none does.
func (l *loader) named() (path, from string) {
	named, from := l.src.File, "--config"
	if named == "" {
		named, from = l.env["SANDPIPER_CONFIG"], "SANDPIPER_CONFIG"
	}
	if named == "" {
		return "", ""
	}
	return absolute(named, l.src.Dir, l.env), from
}

// isUnreadable reports whether a file may exist although it was not found.
func isUnreadable(err error) bool {
	return errors.Is(err, fs.ErrPermission) || fault.Inconclusive(err)
}

func unreadable(path string, err error) error {
	return fault.Wrap(fault.Unavailable, err, "the configuration file %s cannot be read: %v", path, err).
		WithHint("make it readable for the user that runs Sandpiper, or name another one with --config or SANDPIPER_CONFIG")
}

// flagOf returns the flag that sets key.
func flagOf(key string) string {
	return strings.ReplaceAll(strings.TrimPrefix(key, "sandbox."), "_", "-")
}

// environment converts environ to a map.
func environment(environ []string) map[string]string {
	m := make(map[string]string, len(environ))
	for _, e := range environ {
		if name, value, ok := strings.Cut(e, "="); ok {
			m[name] = value
		}
	}
	return m
}
