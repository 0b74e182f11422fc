package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/term"

	"github.com/sandpiper-mcp/sandpiper/internal/clientconfig"
)

// short is a path as a person says it.
func (p *initPlan) short(path string) string {
	if rest, ok := strings.CutPrefix(path, p.env.Home+string(filepath.Separator)); ok {
		return "~" + string(filepath.Separator) + rest
	}
	return path
}

// showPlan shows what was found and what is taken.
func (a *app) showPlan(p *initPlan) {
	s := styleFor(a.stdout)
	for _, problem := range p.found.Problems {
		a.warn(p.problem(problem))
	}
	if len(p.found.Servers) > 0 {
		a.printf("%s\n\n", s.dim(fmt.Sprintf("%s → %s", count(len(p.found.Servers), "server"), visibleName(p.short(p.path)))))
		a.showServers(p)
	}
	if len(p.found.Left) > 0 {
		a.printf("\nLeft out\n")
	}
	width := 0
	for _, l := range p.found.Left {
		width = max(width, min(30, utf8.RuneCountInString(visibleName(l.From.Name))))
	}
	for _, l := range p.found.Left {
		a.printf("  %s  %s\n", fit(visibleName(l.From.Name), width), s.dim(visibleName(p.origin(l.From)+": "+l.Why)))
	}
	if p.options.dry && len(p.fresh) > 0 {
		a.printf("\nWould write to %s\n", visibleName(p.short(p.path)))
		for line := range strings.Lines(added(p.old, p.text)) {
			a.printf("  %s\n", s.green("+ "+visibleName(strings.TrimRight(line, "\r\n"))))
		}
	}
	if len(p.found.Servers)+len(p.found.Left) > 0 && !p.options.dry {
		a.printf("\n")
	}
}

// added are the lines of text that are not at the beginning or the end of old.
func added(old, text []byte) string {
	from, to := 0, len(text)
	for from < len(old) && old[from] == text[from] {
		from++
	}
	for rest := len(old); rest > from && to > from && old[rest-1] == text[to-1]; rest, to = rest-1, to-1 {
	}
	from = strings.LastIndexByte(string(text[:from]), '\n') + 1
	return strings.Trim(string(text[from:to]), "\r\n") + "\n"
}

// row is one server in the table, its variables below each other.
type row struct {
	mark, name, from, what string
	variables              []string
}

func (a *app) showServers(p *initPlan) {
	s := styleFor(a.stdout)
	rows := []row{{" ", "SERVER", "FROM", "WHAT", []string{"VARIABLES"}}}
	for i, server := range p.found.Servers {
		var from []string
		for _, o := range server.From {
			if name := p.origin(o); !slices.Contains(from, name) {
				from = append(from, name)
			}
		}
		var variables []string
		for _, v := range p.found.Variables {
			if slices.Contains(v.Servers, server.Name) {
				variables = append(variables, v.Name)
			}
		}
		what := server.URL
		if what == "" {
			what = strings.Join(append([]string{server.Command}, server.Args...), " ")
		}
		marks := map[string]string{isNew: "+", isThere: "=", isAnother: "!"}
		rows = append(rows, row{marks[p.status[i]], visibleName(server.Name), visibleName(strings.Join(from, ", ")), visibleName(what), variables})
	}
	width := widths(rows, a.columns())
	for i, r := range rows {
		line := fmt.Sprintf("%s %s  %s  %s", r.mark, fit(r.name, width[0]), fit(r.from, width[1]), fit(shortened(r.what, width[2]), width[2]))
		indent := strings.Repeat(" ", utf8.RuneCountInString(line))
		line = strings.TrimRight(line+"  "+strings.Join(r.variables, "\n"+indent+"  "), " ")
		if i == 0 {
			a.printf("%s\n", s.dim(line))
			continue
		}
		a.printf("%s\n", line)
		notes := p.found.Servers[i-1].Notes
		if p.status[i-1] == isAnother {
			notes = append(slices.Clone(notes), "left alone: what stands in sandpiper.yaml under this name is another")
		}
		for _, note := range notes {
			a.printf("    %s\n", s.dim(visibleName(note)))
		}
	}
	if slices.Contains(p.status, isThere) {
		a.printf("%s\n", s.dim("= stands in sandpiper.yaml already"))
	}
}

// columns is how wide the terminal is; elsewhere nothing is cut.
func (a *app) columns() int {
	if f, ok := a.stdout.(*os.File); ok {
		if w, _, err := term.GetSize(int(f.Fd())); err == nil && w > 40 {
			return w
		}
	}
	return 1 << 20
}

// widths are those of the first three columns; what is to be read least exactly
// gives way first.
func widths(rows []row, columns int) [3]int {
	var w [3]int
	last := 0
	for _, r := range rows {
		for i, text := range []string{r.name, r.from, r.what} {
			w[i] = max(w[i], utf8.RuneCountInString(text))
		}
		for _, name := range r.variables {
			last = max(last, len(name))
		}
	}
	for _, give := range []struct{ column, least int }{{2, 24}, {1, 16}, {0, 12}} {
		over := 2 + w[0] + w[1] + w[2] + 6 + last - columns
		if over > 0 {
			w[give.column] = max(min(w[give.column], give.least), w[give.column]-over)
		}
	}
	return w
}

// shortened leaves out of a command line what stands behind its beginning: what
// tells servers apart comes last.
func shortened(text string, width int) string {
	const begin = 7 // npx -y_, https:/
	r := []rune(text)
	if len(r) <= width {
		return text
	}
	return string(r[:begin]) + "…" + string(r[len(r)-width+begin+1:])
}

// fit is text in exactly so many columns.
func fit(text string, width int) string {
	n := utf8.RuneCountInString(text)
	if n > width {
		return string([]rune(text)[:width-1]) + "…"
	}
	return text + strings.Repeat(" ", width-n)
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func (p *initPlan) origin(o clientconfig.Origin) string {
	name := o.File.Client.Name
	if o.Project != "" {
		name += " (" + filepath.Base(o.Project) + ")"
	}
	return name
}

func (p *initPlan) problem(x clientconfig.Problem) string {
	at := p.short(x.File.Path)
	if x.Line > 0 {
		at += fmt.Sprintf(" line %d", x.Line)
	}
	return x.File.Client.Name + ": " + at + " " + x.What + "; its servers are not taken"
}

// showNext says what is left to do for the person.
func (a *app) showNext(p *initPlan) {
	if len(p.found.Servers) == 0 {
		a.showNothing(p)
	}
	a.showVariables(p)
	if p.options.here && len(p.fresh) > 0 {
		a.printf("\nsandpiper trust has %s read.\n", visibleName(p.short(p.path)))
	}
	a.showSnippets(p)
	if slices.ContainsFunc(p.clients, func(c initClient) bool { return len(c.changed) > 0 }) {
		a.printf("\nRestart the clients that were changed. sandpiper init --undo takes all back.\n")
	}
}

// showSnippets shows what connects clients that are not connected, once for all
// that are told alike.
func (a *app) showSnippets(p *initPlan) {
	var snippets []string
	files := map[string][]string{}
	for _, c := range p.clients {
		done := c.wanted && c.err == nil && len(c.writes) > 0 && !p.options.dry
		if c.snippet == "" || c.has || done {
			continue
		}
		if files[c.snippet] == nil {
			snippets = append(snippets, c.snippet)
		}
		files[c.snippet] = append(files[c.snippet], c.client.Name+": "+p.short(c.file.Path))
	}
	if len(snippets) > 0 {
		a.printf("\nTo use Sandpiper in a client: sandpiper init --apply CLIENT, or by hand\n")
	}
	s := styleFor(a.stdout)
	for _, snippet := range snippets {
		a.printf("\n")
		for _, file := range files[snippet] {
			a.printf("%s\n", s.dim("  "+visibleName(file)))
		}
		for line := range strings.Lines(snippet) {
			a.printf("    %s\n", visibleName(strings.TrimRight(line, "\n")))
		}
	}
}

// showNothing says how to go on without anything found.
func (a *app) showNothing(p *initPlan) {
	if p.had > 0 {
		a.printf("There is nothing more to take. %s in %s.\n", count(p.had, "server"), visibleName(p.short(p.path)))
		return
	}
	if len(p.found.Clients) == 0 {
		a.printf("No client was found in %s: no Claude Code, Claude Desktop, Cursor, VS Code, Codex or Gemini CLI.\n", visibleName(p.env.Home))
	} else {
		var names []string
		for _, c := range p.found.Clients {
			names = append(names, c.Name)
		}
		a.printf("There are no servers to take in %s.\n", visibleName(strings.Join(names, ", ")))
	}
	a.printf(`Write servers into %s yourself, for example

  servers:
    github:
      command: npx
      args: [-y, "@modelcontextprotocol/server-github"]
      env: {GITHUB_TOKEN: "${GITHUB_TOKEN}"}

and try sandpiper tools sync. Without servers, sandpiper exec and serve work as well.
`, visibleName(p.short(p.path)))
}

// showVariables says which variables have to be set.
func (a *app) showVariables(p *initPlan) {
	env, _ := os.ReadFile(filepath.Join(filepath.Dir(p.path), ".env"))
	var open []clientconfig.Variable
	width := 0
	for _, v := range p.found.Variables {
		if !v.Set && !sets(env, v.Name) {
			open = append(open, v)
			width = max(width, len(v.Name))
		}
	}
	if len(open) == 0 {
		return
	}
	s := styleFor(a.stdout)
	a.printf("\nSet these in the environment of Sandpiper or in %s:\n", visibleName(p.short(filepath.Join(filepath.Dir(p.path), ".env"))))
	for _, v := range open {
		about := "for " + strings.Join(v.Servers, ", ")
		if v.From != "" {
			about += "; its value stands in " + p.short(p.whereNow(v.From))
		} else if v.What != "" {
			about += "; " + v.What
		}
		a.printf("  %s  %s\n", fit(v.Name, width), s.dim(visibleName(about)))
	}
	if !p.options.envFile && slices.ContainsFunc(open, func(v clientconfig.Variable) bool { return v.From != "" && p.whereNow(v.From) == v.From }) {
		a.printf("%s\n", s.dim("  sandpiper init --env-file writes the values that stand in clients' files there."))
	}
}

// whereNow is where what stood in a client's file stands now: in its copy, if the
// servers were taken out of it.
func (p *initPlan) whereNow(path string) string {
	for _, c := range p.clients {
		if i := slices.Index(c.changed, path); i >= 0 && p.options.replace && c.backups[i] != "" {
			return c.backups[i]
		}
	}
	return path
}
