package config

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/lazyregexp"
)

// Unusable returns what the configuration names and this machine lacks: programs, directories,
// documents and variables. It may be there when Sandpiper runs, so it is no error; each text names the
// entry.
func Unusable(c *Config) (all []string) {
	for _, s := range c.Servers {
		add := func(format string, args ...any) {
			all = append(all, fmt.Sprintf("server %s: ", s.Name)+fmt.Sprintf(format, args...))
		}
		if s.Dir != "" && s.Command != "" && !isDir(s.Dir) {
			add("its cwd %q is not a directory", s.Dir)
		} else if s.Command != "" && s.Env["PATH"] == "" && !hasProgram(s.Command) {
			add("there is no program %q on this machine; install it, or correct its command", s.Command)
		}
		if s.API != nil && s.API.Document != "" && !strings.Contains(s.API.Document, "://") && !strings.Contains(s.API.Document, "${") {
			if _, err := os.Stat(s.API.Document); err != nil {
				add("its document %s cannot be read", s.API.Document)
			}
		}
		for _, name := range unset(c, s) {
			add("the variable %s, to which it refers, is not set here", name)
		}
	}
	for i, h := range c.Guardrails.Check.Hooks {
		if len(h.Command) > 0 && !hasProgram(h.Command[0]) {
			all = append(all, fmt.Sprintf("guardrails.hooks: entry %d: there is no program %q on this machine", i+1, h.Command[0]))
		}
	}
	return all
}

// hasProgram reports whether a program exists, if that can be known here.
func hasProgram(name string) bool {
	if strings.Contains(name, "${") || strings.ContainsAny(name, `/\`) && !filepath.IsAbs(name) {
		return true
	}
	_, err := exec.LookPath(name)
	return err == nil
}

var variable = lazyregexp.New(`\$\{([A-Za-z_][A-Za-z0-9_]*)\}`)

// unset returns the variables of a server that have no value; none if a tenant has some of its own.
func unset(c *Config, s Server) (names []string) {
	if _, own := c.Tenants.WithCredentials(s.Name); own {
		return nil
	}
	texts := append([]string{s.Command, s.URL}, s.Args...)
	for _, values := range []map[string]string{s.Env, s.Headers} {
		for _, v := range values {
			texts = append(texts, v)
		}
	}
	for _, text := range texts {
		for _, m := range variable().FindAllStringSubmatch(text, -1) {
			if _, ok := c.Lookup(m[1]); !ok && !slices.Contains(names, m[1]) {
				names = append(names, m[1])
			}
		}
	}
	slices.Sort(names)
	return names
}
