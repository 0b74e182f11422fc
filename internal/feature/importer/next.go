package importer

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/cli"
	"github.com/sandpiper-mcp/sandpiper/internal/config/literal"
)

// showNextSteps prints the steps that remain to be done by hand.
func showNextSteps(env *cli.Env, p *plan) {
	if len(p.found.Servers) == 0 {
		showNoServers(env, p)
	}
	if !p.declined {
		showVariables(env, p)
	}
	if p.options.here && len(p.added) > 0 {
		env.Printf("\n%s to enable %s.\n", cli.AsPasted(env, "Run `sandpiper trust`"), cli.VisibleName(p.short(p.path)))
	}
	showSnippets(env, p)
	if slices.ContainsFunc(p.clients, func(c target) bool { return len(c.changed) > 0 }) {
		env.Printf("\nRestart the changed clients. %s reverts all changes.\n", cli.AsPasted(env, "`sandpiper init --undo`"))
	}
}

// showSnippets prints the configuration for clients that do not have Sandpiper,
// once for all clients with the same snippet.
func showSnippets(env *cli.Env, p *plan) {
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
		env.Printf("\nTo add Sandpiper to a client, run %s or copy this:\n", cli.AsPasted(env, "`sandpiper init --apply CLIENT`"))
	}
	s := cli.StyleFor(env.Stdout)
	for _, snippet := range snippets {
		env.Printf("\n")
		for _, file := range files[snippet] {
			env.Printf("%s\n", s.Dim("  "+cli.VisibleName(file)))
		}
		for line := range strings.Lines(snippet) {
			env.Printf("    %s\n", cli.VisibleName(strings.TrimRight(line, "\n")))
		}
	}
}

// showNoServers explains how to add servers by hand.
func showNoServers(env *cli.Env, p *plan) {
	if p.existing > 0 {
		env.Printf("No servers to import. %s has %s.\n", cli.VisibleName(p.short(p.path)), cli.Count(p.existing, "server"))
		return
	}
	changed := slices.ContainsFunc(p.clients, func(c target) bool { return c.wanted && c.err == nil })
	if len(p.found.Clients) == 0 && changed { // the file of a client that was named is new
		env.Printf("No servers to import.\n")
	} else if len(p.found.Clients) == 0 {
		env.Printf("No client was found in %s (Claude Code, Claude Desktop, Cursor, VS Code, Codex, Gemini CLI).\n",
			cli.VisibleName(p.env.Home))
	} else {
		var names []string
		for _, c := range p.found.Clients {
			names = append(names, c.Name)
		}
		env.Printf("No servers to import from %s.\n", cli.VisibleName(strings.Join(names, ", ")))
	}
	env.Printf(`Add servers to %s by hand, for example

  servers:
    github:
      command: npx
      args: [-y, "@modelcontextprotocol/server-github"]
      env: {GITHUB_TOKEN: "${GITHUB_TOKEN}"}

and run %s. sandpiper exec and serve also work without servers.
`, cli.VisibleName(p.short(p.path)), cli.AsPasted(env, "`sandpiper tools sync`"))
}

// showVariables lists the variables that are not set.
func showVariables(env *cli.Env, p *plan) {
	envFile := filepath.Join(filepath.Dir(p.path), ".env")
	text, _ := os.ReadFile(envFile)
	var unset []literal.Variable
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
	s := cli.StyleFor(env.Stdout)
	env.Printf("\nSet these in the environment of Sandpiper or in %s:\n", cli.VisibleName(p.short(envFile)))
	for _, v := range unset {
		text := "for " + strings.Join(v.Servers, ", ")
		if v.File != "" {
			text += "; its value is in " + p.short(p.currentFile(v.File))
		} else if v.Description != "" {
			text += "; " + v.Description
		}
		env.Printf("  %s  %s\n", cli.Fit(v.Name, width), s.Dim(cli.VisibleName(text)))
	}
	if !p.options.envFile && slices.ContainsFunc(unset, func(v literal.Variable) bool {
		return v.File != "" &&
			p.currentFile(v.File) == v.File
	}) {
		env.Printf("%s\n", s.Dim("  "+cli.AsPasted(env, "`sandpiper init --env-file`")+" copies the values from the clients' files."))
	}
}

// currentFile returns the file that contains the values of a client's file: the
// copy, if --replace removed the servers from the file.
func (p *plan) currentFile(path string) string {
	for _, c := range p.clients {
		if i := slices.Index(c.changed, path); i >= 0 && p.options.replace && c.backups[i] != "" {
			return c.backups[i]
		}
	}
	return path
}
