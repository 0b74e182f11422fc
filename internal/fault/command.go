package fault

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
)

// Commands completes the commands of the program that messages name in backquotes, so that they work
// in a shell of the person.
type Commands struct {
	Config string // path of the configuration file that a flag or variable names; "" means none
	Tenant string // "" means the one that commands use by default
	Pages  string // URL of the pages of approvals, with a slash at its end; "" means none
}

// command matches commands of the program, which may be joined by &&, with the verb that precedes
// them, if they approve something.
var command = regexp.MustCompile("(run )?`(sandpiper [^`]+)`")

// ofTenant are the beginnings of commands with the flag --tenant.
var ofTenant = []string{
	"approvals ", "exec ", "executions ", "files ", "pii allow", "pii disallow", "policy check", "schedules ", "session ", "skills ",
	"state ", "stats",
	"task ", "tools call", "tools forget", "tools get", "tools search", "workflow ",
}

// Approve returns the words that ask a person to approve calls or plans: "run `…` (or deny)".
func Approve(ids ...string) string {
	return "run `sandpiper approvals approve " + strings.Join(ids, " ") + "` (or deny)"
}

// Complete adds the flags to the commands in a text. With Pages, the links of approvals precede the
// command that approves them.
func (c Commands) Complete(text string) string {
	if c == (Commands{}) || !strings.Contains(text, "`sandpiper ") {
		return text
	}
	return command.ReplaceAllStringFunc(text, func(found string) string {
		m := command.FindStringSubmatch(found)
		all := strings.Split(m[2], " && ")
		for i, one := range all {
			all[i] = c.complete(one)
		}
		line := m[1] + "`" + strings.Join(all, " && ") + "`"
		if ids, ok := strings.CutPrefix(m[2], "sandpiper approvals approve "); ok && c.Pages != "" {
			ids, _, _ = strings.Cut(ids, " --") // completed before
			return "open " + c.Pages + strings.ReplaceAll(ids, " ", " and "+c.Pages) + ", or " + cmp.Or(m[1], "run ") + line[len(m[1]):]
		}
		return line
	})
}

func (c Commands) complete(line string) string {
	rest, ok := strings.CutPrefix(line, "sandpiper ")
	line, program, ends := strings.Cut(line, " -- ") // after it, flags are those of a server's program
	if c.Config != "" && ok && !strings.Contains(line, " --config ") {
		line += " --config " + ShellQuote(c.Config)
	}
	of := func(begin string) bool { return strings.HasPrefix(rest+" ", begin) }
	if c.Tenant != "" && !strings.Contains(line, " --tenant ") && slices.ContainsFunc(ofTenant, of) {
		line += " --tenant " + ShellQuote(c.Tenant)
	}
	if ends {
		line += " -- " + program
	}
	return line
}

var plain = regexp.MustCompile(`^[A-Za-z0-9@%+=:,./_-]+$`)

// ShellQuote returns s as one word of a shell.
func ShellQuote(s string) string {
	if plain.MatchString(s) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
