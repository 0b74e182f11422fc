package config

import (
	"cmp"
	"slices"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
)

// addProject merges the trusted project files into c, the user's configuration, which is
// the minimum. own and user are the sources of c. tenant does the same for the configuration of
// a tenant, as far as that differs from c.
func (c *Config) addProject(own *loader, user *draft) (tenant func(*Config) error, err error) {
	nothing := func(*Config) error { return nil }
	files, err := Project(own.src)
	if err != nil {
		return nil, err
	}
	c.Untrusted = untrusted(files)
	if !slices.ContainsFunc(files, func(f ProjectFile) bool { return f.State == Trusted }) {
		warnReplaced(c, own.msb)
		return nothing, nil
	}
	l := &loader{
		src:     own.src,
		table:   own.table,
		env:     own.env,
		dotenv:  map[string]string{},
		dir:     own.src.Dir,
		project: true,
	}
	l.readProject(files)
	p := draft{dirs: user.dirs, env: own.env, given: map[string]setting{}}
	p.Features = newFeatures(own.table)
	if err := p.applyAll(l.only(c.Warn)); err != nil {
		return nil, err
	}
	if err := p.given.enoughMemory(p.Limits); err != nil {
		return nil, err
	}
	c.Files = append(c.Files, l.files...)
	c.Warnings = append(append(c.Warnings, l.warnings...), p.Warnings...)
	warnReplaced(c, append(own.msb, l.msb...))
	c.tighten(l, &p)
	for key, s := range p.given {
		user.given["project."+key] = s
	}
	c.Limits = c.Limits.WithDefaults()
	c.Lookup = withDotenv(c.Lookup, references(own.settings), l.dotenv)
	return func(t *Config) error { return t.tightenTenant(&p) }, c.PII.check()
}

// tightenTenant merges the settings of a project into the configuration of a tenant. Its
// warnings would repeat those of the daemon's.
func (c *Config) tightenTenant(p *draft) error {
	warnings := c.Warnings
	c.PII.addTypes(&p.PII, c.Warn)
	c.PII.addFlows(&p.PII)
	for key, s := range p.given {
		if merge := tableOf(c).merge(key); merge != nil {
			merge(c, &p.Config, s)
		}
	}
	c.Warnings, c.Limits = warnings, c.Limits.WithDefaults()
	return c.PII.check()
}

// only returns l with the settings that a project may make, and warns about others.
func (l *loader) only(warn func(string)) *loader {
	may := *l
	may.settings = nil
	for _, s := range l.settings {
		if l.table.known(s.key) && l.table.merge(s.key) == nil && !l.table.sections[s.key] {
			warn(s.from + ": " + s.key + " has no effect in a project; set it in your own configuration")
			continue
		}
		may.settings = append(may.settings, s)
	}
	may.warnings = nil
	return &may
}

// withDotenv returns a lookup that finds the variables of the project's .env too, except those that the
// user's own configuration refers to.
func withDotenv(lookup func(string) (string, bool), ours map[string]bool, dotenv map[string]string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		if v, ok := lookup(name); ok || ours[name] {
			return v, ok
		}
		v, ok := dotenv[name]
		return v, ok
	}
}

// tighten merges the settings of a project.
func (c *Config) tighten(l *loader, p *draft) {
	addServers(c, p.Servers)
	c.Catalogs = append(c.Catalogs, p.Catalogs...)
	c.Project.Reads, c.Project.Variables = slices.Clone(p.Catalogs), l.dotenv
	for _, h := range p.Guardrails.Check.Hooks {
		c.Project.Hooks = append(c.Project.Hooks, h.Command)
	}
	c.PII.addTypes(&p.PII, c.Warn)
	c.PII.addFlows(&p.PII)
	if len(p.Policy.Rules)+len(p.Policy.Budgets) > 0 || p.Policy.Default != "" {
		c.Policy.Project = &p.Policy
	}
	for _, d := range []struct {
		name     string
		own, new *string
	}{{"SERVERS_DIR", &c.ServersDir, &l.servers}, {"SKILLS_DIR", &c.SkillsDir, &l.skills}} {
		if *d.new == "" {
			continue
		}
		if *d.own == "" {
			*d.own = *d.new
			c.Project.Reads = append(c.Project.Reads, *d.new)
		} else {
			c.Warn(d.name + " of the project has no effect: your own configuration sets it")
		}
	}
	if file := p.Log.File; file != "" && c.Log.File == "" {
		if inside(l.dir, file) {
			c.Log.File, c.Log.Root = file, l.dir
			c.Project.Writes = append(c.Project.Writes, file)
		} else {
			c.Warn(p.given["log.file"].from + ": log.file has no effect: a project can only name files in its own directory")
		}
	}
	var all []setting
	for _, s := range p.given {
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b setting) int { return cmp.Compare(a.from+a.key, b.from+b.key) })
	for _, s := range all {
		if merge := tableOf(c).merge(s.key); merge != nil && !merge(c, &p.Config, s) {
			c.Warn(s.from + ": " + s.key + " has no effect in a project: your own configuration is stricter")
		}
	}
}

// addServers adds the servers of a project. They cannot replace a server of the user or
// its module, and their annotations are not trusted.
func addServers(c *Config, more []Server) {
	taken := map[string]bool{}
	module := func(name string) string { return tool.ModuleNames([]string{name})[name] }
	for _, s := range c.Servers {
		taken[module(s.Name)] = true
	}
	for _, name := range c.Disabled {
		taken[module(name)] = true
	}
	for _, s := range more {
		if taken[module(s.Name)] {
			c.Warn("server " + s.Name + " of the project has no effect: your own configuration has a server of that name")
			continue
		}
		if s.API != nil && s.API.Directs {
			c.Warn("server " + s.Name + " of the project has no effect: its document, which is not part of the trusted files, determines " +
				"where credentials are sent; set url, and token_url for client_credentials")
			continue
		}
		if s.Trusted {
			c.Warn("server " + s.Name + ": trusted has no effect in a project; configure the server in your own configuration")
		}
		s.Trusted, s.Project = false, true
		c.Servers = append(c.Servers, s)
	}
}

// addTypes adds the keys and patterns of a project. They must have types of their own: a
// value with another type would be subject to other flows. A flow of the user that
// denies some types denies the project's types too, and their lifetime is the shortest
// of all types.
func (p *PII) addTypes(project *PII, warn func(string)) {
	known := p.Types()
	var added []detect.Type
	mine := func(t detect.Type, what string) bool {
		if slices.Contains(known, string(t)) {
			warn(what + " of the project has no effect: the type " + string(t) + " exists already; use another type")
			return false
		}
		if !slices.Contains(added, t) {
			added = append(added, t)
		}
		return true
	}
	for _, one := range project.Scan.Patterns {
		if mine(one.Type, "a pattern") {
			p.Scan.Patterns = append(p.Scan.Patterns, one)
		}
	}
	keys := map[string]detect.Type{}
	for name, t := range project.Scan.Keys {
		if _, had := p.Scan.Keys[name]; had {
			warn("pii.keys." + name + " of the project has no effect: your own configuration sets it")
		} else if mine(t, "pii.keys."+name) {
			keys[name] = t
		}
	}
	for name, t := range p.Scan.Keys {
		keys[name] = t
	}
	if len(keys) > 0 {
		p.Scan.Keys = keys
	}
	flows := slices.Clone(p.Flows)
	for i, f := range flows {
		if f.Decision == redact.Deny && len(f.Types) > 0 {
			flows[i].Types = append(slices.Clone(f.Types), added...)
		}
	}
	p.Flows = flows
	shortest := time.Duration(0)
	for _, ttl := range p.TTL {
		if ttl > 0 && (shortest == 0 || ttl < shortest) {
			shortest = ttl
		}
	}
	for _, t := range added {
		if shortest > 0 {
			p.TTL[t] = shortest
		}
	}
}

// addFlows adds the mode and the flows of a project. A value is sent only where both the
// user's and the project's mode and flows allow it.
func (p *PII) addFlows(project *PII) {
	strict := string(redact.Strict)
	all := redact.Flow{Decision: redact.Allow}
	flows := project.Flows
	switch {
	case project.Mode == strict && p.Mode != strict && len(flows) > 0:
		p.Flows = append(slices.Clone(p.Flows), all)
	case project.Mode != strict && len(flows) > 0:
		flows = append(slices.Clone(flows), all)
	}
	p.Project = flows
}
