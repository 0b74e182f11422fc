package importer

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/term"

	"github.com/sandpiper-mcp/sandpiper/internal/cli"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/importer/clientconfig"
)

// short returns a path with ~ for the home directory.
func (p *plan) short(path string) string {
	if rest, ok := strings.CutPrefix(path, p.env.Home+string(filepath.Separator)); ok {
		return "~" + string(filepath.Separator) + rest
	}
	return path
}

// origin describes the client and project of an entry.
func (p *plan) origin(o clientconfig.Origin) string {
	name := o.File.Client.Name
	if o.Project != "" {
		name += " (" + filepath.Base(o.Project) + ")"
	}
	return name
}

// showPlan prints the servers found, those skipped, and with --dry-run the lines
// that would be written.
func showPlan(env *cli.Env, p *plan) {
	s := cli.StyleFor(env.Stdout)
	for _, x := range p.found.Problems {
		path := p.short(x.Path)
		if x.Line > 0 {
			path += fmt.Sprintf(" line %d", x.Line)
		}
		env.Warn(x.Client.Name + ": " + path + " " + x.Message + "; its servers are not imported")
	}
	if len(p.found.Servers) > 0 {
		env.Printf("%s\n\n", s.Dim(fmt.Sprintf("%s → %s", cli.Count(len(p.found.Servers), "server"), cli.VisibleName(p.short(p.path)))))
		showServers(env, p)
	}
	if len(p.found.Skipped) > 0 {
		env.Printf("\nNot imported\n")
	}
	width := 0
	for _, skipped := range p.found.Skipped {
		width = max(width, min(30, utf8.RuneCountInString(cli.VisibleName(skipped.Name))))
	}
	for _, skipped := range p.found.Skipped {
		env.Printf("  %s  %s\n", cli.Fit(cli.VisibleName(skipped.Name), width),
			s.Dim(cli.VisibleName(p.origin(skipped.Origin)+": "+skipped.Reason)))
	}
	if p.options.dry && len(p.added) > 0 {
		env.Printf("\nWould write to %s\n", cli.VisibleName(p.short(p.path)))
		for line := range strings.Lines(addedLines(p.old, p.text)) {
			env.Printf("  %s\n", s.Green("+ "+cli.VisibleName(strings.TrimRight(line, "\r\n"))))
		}
	}
	if p.options.dry {
		showClientEdits(env, p)
	}
	if len(p.found.Servers)+len(p.found.Skipped) > 0 && !p.options.dry {
		env.Printf("\n")
	}
}

// showClientEdits prints what would change in the files of clients.
func showClientEdits(env *cli.Env, p *plan) {
	for _, c := range p.clients {
		switch {
		case c.wanted && c.err != nil:
			env.Warn(c.client.Name + ": " + fault.Sentence(c.err))
		case c.wanted && len(c.edits) == 0:
			env.Printf("\n%s\n", cli.VisibleName(p.hasAlready(&c)))
		case c.wanted:
			showEdits(env, p, c, "Would change")
		}
	}
}

// showEdits prints the entries that are added to the files of a client and removed from them.
// Those that are removed have names only, since they may contain secrets.
func showEdits(env *cli.Env, p *plan, c target, verb string) {
	s := cli.StyleFor(env.Stdout)
	for i, e := range c.edits {
		if i == 0 || c.edits[i-1].file.Path != e.file.Path {
			env.Printf("\n%s %s (%s)\n", verb, cli.VisibleName(p.short(e.file.Path)), c.client.Name)
		}
		if l := e.edit.Put; l != nil {
			env.Printf("  %s\n", s.Green("+ "+cli.VisibleName(clientconfig.EntryName+": "+strings.Join(append([]string{l.Command},
				l.Args...), " "))))
			if l.Approved {
				env.Printf("  %s\n", s.Green("+ "+clientconfig.EntryName+": "+clientconfig.Approval))
			}
		}
		for _, name := range e.edit.Drop {
			if e.project != "" && !e.file.Project {
				name += " (" + filepath.Base(e.project) + ")"
			}
			env.Printf("  %s\n", s.Red("- "+cli.VisibleName(name)))
		}
	}
}

// addedLines returns the lines of text without the common start and end of old
// and text.
func addedLines(old, text []byte) string {
	from, to := 0, len(text)
	for from < len(old) && old[from] == text[from] {
		from++
	}
	for rest := len(old); rest > from && to > from && old[rest-1] == text[to-1]; rest, to = rest-1, to-1 {
	}
	from = strings.LastIndexByte(string(text[:from]), '\n') + 1
	return strings.Trim(string(text[from:to]), "\r\n") + "\n"
}

// showServers prints a table of the servers. If the terminal is too narrow, the column RUNS shrinks.
func showServers(env *cli.Env, p *plan) {
	s := cli.StyleFor(env.Stdout)
	rows := append([][]string{{" ", "SERVER", "FROM", "RUNS", "VARIABLES"}}, p.rows()...)
	var width [5]int
	total := 2 * len(width)
	for i := range width {
		for _, r := range rows {
			width[i] = max(width[i], utf8.RuneCountInString(r[i]))
		}
		total += width[i]
	}
	if over := total - columns(env); over > 0 {
		width[3] = max(min(width[3], 24), width[3]-over)
	}
	for i, r := range rows {
		line := strings.TrimRight(fmt.Sprintf("%s %s  %s  %s  %s", r[0], cli.Fit(r[1], width[1]), cli.Fit(r[2], width[2]),
			cli.Fit(elide(r[3], width[3]), width[3]), r[4]), " ")
		if i == 0 {
			env.Printf("%s\n", s.Dim(line))
			continue
		}
		env.Printf("%s\n", line)
		notes := slices.Clone(p.found.Servers[i-1].Notes)
		if p.status[i-1] == statusAnother {
			notes = append(notes, "not written: sandpiper.yaml has another server with this name")
		}
		for _, note := range notes {
			env.Printf("    %s\n", s.Dim(cli.VisibleName(note)))
		}
	}
	if slices.Contains(p.status, statusThere) {
		env.Printf("%s\n", s.Dim("= is in sandpiper.yaml already"))
	}
}

// rows returns one row for each server found.
func (p *plan) rows() (rows [][]string) {
	marks := map[string]string{statusNew: "+", statusThere: "=", statusAnother: "!"}
	for i, server := range p.found.Servers {
		var from, variables []string
		for _, o := range server.From {
			if name := p.origin(o); !slices.Contains(from, name) {
				from = append(from, name)
			}
		}
		for _, v := range p.found.Variables {
			if slices.Contains(v.Servers, server.Name) {
				variables = append(variables, v.Name)
			}
		}
		runs := cmp.Or(server.URL, strings.Join(append([]string{server.Command}, server.Args...), " "))
		rows = append(rows, []string{marks[p.status[i]], cli.VisibleName(server.Name), cli.VisibleName(strings.Join(from, ", ")),
			cli.VisibleName(runs), strings.Join(variables, ", ")})
	}
	return rows
}

// columns returns the width of the terminal, a very large number without one.
func columns(env *cli.Env) int {
	if f, ok := cli.FileOf(env.Stdout); ok {
		if w, _, err := term.GetSize(int(f.Fd())); err == nil && w > 40 {
			return w
		}
	}
	return 1 << 20
}

// elide shortens a command line after its first characters, since its end
// identifies the server.
func elide(text string, width int) string {
	const start = 7 // "npx -y ", "https:/"
	r := []rune(text)
	if len(r) <= width {
		return text
	}
	return string(r[:start]) + "…" + string(r[len(r)-width+start+1:])
}
