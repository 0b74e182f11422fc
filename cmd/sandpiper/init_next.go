package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/clientconfig"
)

// showNextSteps prints the steps that remain to be done by hand.
func showNextSteps(env *app, p *initPlan) {
	if len(p.found.Servers) == 0 {
		showNoServers(env, p)
	}
	if !p.declined {
		showVariables(env, p)
	}
	if p.options.here && len(p.added) > 0 {
		env.printf("\n%s to enable %s.\n", asPasted(env, "Run `sandpiper trust`"), visibleName(p.short(p.path)))
	}
	showSnippets(env, p)
	if slices.ContainsFunc(p.clients, func(c initClient) bool { return len(c.changed) > 0 }) {
		env.printf("\nRestart the changed clients. %s reverts all changes.\n", asPasted(env, "`sandpiper init --undo`"))
	}
}

// showSnippets prints the configuration for clients that do not have Sandpiper,
// once for all clients with the same snippet.
func showSnippets(env *app, p *initPlan) {
	var snippets []string
	files := map[string][]string{}
	for _, c := range p.clients {
		if c.snippet == "" || c.has || c.applied() || p.options.dry && c.wanted && c.err == nil {
			continue
		}
		if files[c.snippet] == nil {
			snippets = append(snippets, c.snippet)
		}
		files[c.snippet] = append(files[c.snippet], c.client.Name+": "+p.short(c.file.Path))
	}
	if len(snippets) > 0 {
		env.printf("\nTo add Sandpiper to a client, run %s or copy this:\n", asPasted(env, "`sandpiper init --apply CLIENT`"))
	}
	s := styleFor(env.stdout)
	for _, snippet := range snippets {
		env.printf("\n")
		for _, file := range files[snippet] {
			env.printf("%s\n", s.dim("  "+visibleName(file)))
		}
		for line := range strings.Lines(snippet) {
			env.printf("    %s\n", visibleName(strings.TrimRight(line, "\n")))
		}
	}
}

// showNoServers explains how to add servers by hand.
func showNoServers(env *app, p *initPlan) {
	if p.existing > 0 {
		env.printf("No servers to import. %s has %s.\n", visibleName(p.short(p.path)), count(p.existing, "server"))
		return
	}
	changed := slices.ContainsFunc(p.clients, func(c initClient) bool { return c.wanted && c.err == nil })
	if len(p.found.Clients) == 0 && changed { // the file of a client that was named is new
		env.printf("No servers to import.\n")
	} else if len(p.found.Clients) == 0 {
		env.printf("No client was found in %s (Claude Code, Claude Desktop, Cursor, VS Code, Codex, Gemini CLI).\n", visibleName(p.env.Home))
	} else {
		var names []string
		for _, c := range p.found.Clients {
			names = append(names, c.Name)
		}
		env.printf("No servers to import from %s.\n", visibleName(strings.Join(names, ", ")))
	}
	env.printf(`Add servers to %s by hand, for example

  servers:
    github:
      command: npx
      args: [-y, "@modelcontextprotocol/server-github"]
      env: {GITHUB_TOKEN: "${GITHUB_TOKEN}"}

and run %s. sandpiper exec and serve also work without servers.
`, visibleName(p.short(p.path)), asPasted(env, "`sandpiper tools sync`"))
}

// showVariables lists the variables that are not set.
func showVariables(env *app, p *initPlan) {
	envFile := filepath.Join(filepath.Dir(p.path), ".env")
	text, _ := os.ReadFile(envFile)
	var unset []clientconfig.Variable
	width := 0
	for _, v := range p.found.Variables {
		if !v.Set && !setsVariable(text, v.Name) {
			unset = append(unset, v)
			width = max(width, len(v.Name))
		}
	}
	if len(unset) == 0 {
		return
	}
	s := styleFor(env.stdout)
	env.printf("\nSet these in the environment of Sandpiper or in %s:\n", visibleName(p.short(envFile)))
	for _, v := range unset {
		text := "for " + strings.Join(v.Servers, ", ")
		if v.File != "" {
			text += "; its value is in " + p.short(p.currentFile(v.File))
		} else if v.Description != "" {
			text += "; " + v.Description
		}
		env.printf("  %s  %s\n", fit(v.Name, width), s.dim(visibleName(text)))
	}
	if !p.options.envFile && slices.ContainsFunc(unset, func(v clientconfig.Variable) bool { return v.File != "" && p.currentFile(v.File) == v.File }) {
		env.printf("%s\n", s.dim("  "+asPasted(env, "`sandpiper init --env-file`")+" copies the values from the clients' files."))
	}
}

// currentFile returns the file that contains the values of a client's file: the
// copy, if --replace removed the servers from the file.
func (p *initPlan) currentFile(path string) string {
	for _, c := range p.clients {
		if i := slices.Index(c.changed, path); i >= 0 && p.options.replace && c.copies[i] != "" {
			return c.copies[i]
		}
	}
	return path
}
