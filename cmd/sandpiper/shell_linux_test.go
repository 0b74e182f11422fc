package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// shell is a bash that runs the commands of a page.
type shell struct {
	t      *testing.T
	in     io.Writer
	out    *bufio.Reader
	there  *strings.Replacer // from the addresses on the page to the real ones
	public *strings.Replacer
	ids    map[string]string // from the ids on the page to those of this run
}

func startShell(t *testing.T, dir string, addresses map[string]string, variables []string) *shell {
	t.Helper()
	s := &shell{t: t, ids: map[string]string{}}
	var there, public []string
	for on, real := range addresses {
		there, public = append(there, on, real), append(public, real, on)
	}
	s.there, s.public = strings.NewReplacer(there...), strings.NewReplacer(public...)
	cmd := exec.CommandContext(t.Context(), "bash", "--norc")
	cmd.Dir = dir
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "LC_ALL=C"}, variables...)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		_ = cmd.Wait()
	})
	s.in, s.out = in, bufio.NewReader(out)
	return s
}

// repeat runs the commands of a block, and returns the block with what they print now.
func (s *shell) repeat(block string) string {
	var b strings.Builder
	lines := strings.Split(block, "\n")
	for i := 0; i < len(lines); i++ {
		first, is := strings.CutPrefix(lines[i], "$ ")
		if !is {
			if strings.HasPrefix(lines[i], "```") {
				b.WriteString(lines[i] + "\n")
			}
			continue // what it printed before
		}
		b.WriteString(lines[i] + "\n")
		command := first
		for ; i+1 < len(lines) && (strings.HasPrefix(lines[i+1], "> ") || lines[i+1] == ">"); i++ {
			b.WriteString(lines[i+1] + "\n")
			command += "\n" + strings.TrimPrefix(lines[i+1][1:], " ")
		}
		var shown []string
		for j := i + 1; j < len(lines) && !strings.HasPrefix(lines[j], "$ ") && !strings.HasPrefix(lines[j], "```"); j++ {
			shown = append(shown, lines[j])
		}
		said := strings.TrimRight(s.run(command), "\n")
		if before := strings.Join(shown, "\n"); s.same(before, said) {
			said = before
		}
		if said != "" {
			b.WriteString(said + "\n")
		}
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// run runs a command and returns what it prints, with the addresses of the page.
func (s *shell) run(command string) string {
	s.t.Helper()
	for on, now := range s.ids {
		command = strings.ReplaceAll(command, on, now)
	}
	if _, err := fmt.Fprintf(s.in, "{ %s\n} </dev/null\nprintf '\\001'\n", s.there.Replace(command)); err != nil {
		s.t.Fatal(err)
	}
	said, err := s.out.ReadString(1)
	if err != nil {
		s.t.Fatalf("%s: %v: %s", command, err, said)
	}
	return s.public.Replace(strings.TrimSuffix(said, "\x01"))
}

// What may differ from run to run: on the page, and in another run. Later commands of the page use an id.
var varying = []struct {
	shown *regexp.Regexp
	now   string
	id    bool
}{
	{shown: regexp.MustCompile(`^…\n`), now: `(?:.*\n)*?`},
	{shown: regexp.MustCompile(`^…`), now: `.*`},
	{shown: regexp.MustCompile(`^(exec|plan)_[a-z2-7]{26}\b`), now: `(?:exec|plan)_[a-z2-7]{26}`, id: true},
	{shown: regexp.MustCompile(`^[A-Z]_?[A-Z]+_[a-z0-9]{8,16}\b`), now: `[A-Z_]+_[a-z0-9]{8,16}`, id: true},
	{shown: regexp.MustCompile(`^[a-z][0-9][a-z0-9]{6,8}\b`), now: `[a-z0-9]{8,10}`, id: true},
	{shown: regexp.MustCompile(`^[0-9a-f]{16,64}\b`), now: `[0-9a-f]{16,64}`, id: true},
	{shown: regexp.MustCompile(`^\d{4}-\d\d-\d\d([ T]\d\d:\d\d:\d\d(\.\d+)?Z?)?`),
		now: `\d{4}-\d\d-\d\d(?:[ T]\d\d:\d\d:\d\d(?:\.\d+)?Z?)?`},
	{shown: regexp.MustCompile(`^\d+(\.\d+)?(µs|ms|s)\b`), now: `\d+(?:\.\d+)?(?:µs|ms|s)`},
	{shown: regexp.MustCompile(`^\d+ tokens\b`), now: `\d+ tokens`},
	{shown: regexp.MustCompile(`^\d+(\.\d+)? MB\b`), now: `\d+(?:\.\d+)? MB`},
}

var wordStart = regexp.MustCompile(`^(\w+|.)`)

// same reports whether a command printed what the page shows, apart from what varies, and remembers the ids.
func (s *shell) same(shown, said string) bool {
	var pattern strings.Builder
	var ids []string
	rest := shown + "\n"
next:
	for rest != "" {
		for _, v := range varying {
			if part := v.shown.FindString(rest); part != "" {
				if v.id {
					ids = append(ids, part)
					pattern.WriteString("(" + v.now + ")")
				} else {
					pattern.WriteString(v.now)
				}
				rest = rest[len(part):]
				continue next
			}
		}
		part := wordStart.FindString(rest)
		if part == "" {
			part = rest[:1] // a line break
		}
		pattern.WriteString(regexp.QuoteMeta(part))
		rest = rest[len(part):]
	}
	m := regexp.MustCompile("^" + pattern.String() + "$").FindStringSubmatch(said + "\n")
	for i, id := range ids {
		if m != nil {
			s.ids[id] = m[i+1]
		}
	}
	return m != nil
}
