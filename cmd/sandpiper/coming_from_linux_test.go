package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/config"
	"github.com/sandpiper-mcp/sandpiper/internal/daemon"
	"github.com/sandpiper-mcp/sandpiper/internal/feature"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/all"
	"github.com/sandpiper-mcp/sandpiper/internal/longtest"
)

// migrated are the files of a user of the seed systems, and daemons that were started with them.
type migrated struct {
	first, second *formClient
	dir           string // of the second seed's project
	python        []string
	pythonEnv     []string
}

// check checks a row of docs/coming-from.md.
type check func(t *testing.T, m *migrated)

// TestComingFromTheSeeds checks each row of each table of docs/coming-from.md, by its section
// and first cell.
func TestComingFromTheSeeds(t *testing.T) {
	longtest.SkipSlow(t)
	needSandbox(t)
	rows, m := comingFromRows(t), migrate(t)
	for section, names := range rows {
		for _, name := range names {
			t.Run(section+"/"+name, func(t *testing.T) {
				f, ok := comingFrom[section][name]
				if !ok {
					t.Fatal("the row has no check")
				}
				f(t, m)
			})
		}
	}
	for section, checks := range comingFrom {
		for name := range checks {
			if !slices.Contains(rows[section], name) {
				t.Errorf("%s/%s: there is no such row", section, name)
			}
		}
	}
}

// comingFromRows returns the first cells of the rows of each section, without backticks.
func comingFromRows(t *testing.T) map[string][]string {
	t.Helper()
	text, err := os.ReadFile("../../docs/coming-from.md")
	if err != nil {
		t.Fatal(err)
	}
	rows, section := map[string][]string{}, ""
	for line := range strings.Lines(string(text)) {
		if name, ok := strings.CutPrefix(line, "### "); ok {
			section = strings.TrimSpace(name)
		}
		cells := strings.Split(strings.ReplaceAll(line, `\|`, "¦"), "|")
		if len(cells) < 4 || strings.HasPrefix(line, "|---") {
			continue
		}
		name := strings.ReplaceAll(strings.TrimSpace(strings.ReplaceAll(cells[1], "`", "")), "¦", "|")
		if name != "there" {
			rows[section] = append(rows[section], name)
		}
	}
	return rows
}

// migrate writes the files of both seeds and starts a daemon for each.
func migrate(t *testing.T) *migrated {
	first, second, servers := t.TempDir(), t.TempDir(), exampleServers(t)
	agentic := filepath.Join(first, "agentic", "mcp-servers", "code-execution-mcp")
	writeAll(t, first, map[string]string{".env": "AGENTIC_SYSTEM_PATH=./agentic\n"})
	writeAll(t, agentic, firstSeed)
	writeAll(t, second, secondSeed)
	config := fmt.Sprintf("mcp_servers:\n  weather: {command: %q}\n", filepath.Join(servers, "weather"))
	// few machines that test have KVM
	writeAll(t, second, map[string]string{"config.yaml": strings.NewReplacer("mcp_servers: []\n", config, "microsandbox", "process").
		Replace(secondSeed["config.yaml"])})

	m := &migrated{dir: second}
	m.first = connect(t, first, fmt.Sprintf("servers: {calculator: {command: %q}}\n", filepath.Join(servers, "calculator")), "2025-11-25",
		"{}")
	m.run(t, "trust", "--yes")
	m.second = &formClient{served: serve(t, second)}
	source, err := filepath.Abs(pythonClient)
	if err != nil {
		t.Fatal(err)
	}
	work := t.TempDir()
	own := filepath.Join(work, "own.yaml")
	writeAll(t, work, map[string]string{"own.yaml": fmt.Sprintf("servers:\n  calculator: {command: %q}\n",
		filepath.Join(servers, "calculator"))})
	m.python = []string{python3(t), work}
	m.pythonEnv = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1", "HOME="+work, "XDG_CONFIG_HOME="+work,
		"PYTHONPATH="+filepath.Join(source, "src"),
		"SANDPIPER="+selfAsSandpiper(t), "SANDPIPER_CONFIG="+own)
	return m
}

func writeAll(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// run runs a command in the second seed's project.
func (m *migrated) run(t *testing.T, args ...string) string {
	t.Helper()
	out, err := sandpiper(m.dir, args...).CombinedOutput()
	if err != nil {
		t.Errorf("%q: %v\n%s", args, err, out)
	}
	return string(out)
}

// call calls a tool and returns the text of the answer.
func (p *formClient) call(t *testing.T, tool, args string) string {
	t.Helper()
	p.sendCall(tool, args, "")
	m := p.nextMessage()
	if len(m.Result.Content) == 0 {
		t.Fatalf("%s %s: no content", tool, args)
	}
	return m.Result.Content[0].Text
}

func contains(t *testing.T, text string, want ...string) {
	t.Helper()
	for _, w := range want {
		if ok, err := regexp.MatchString(w, text); !ok || err != nil {
			t.Errorf("no match of %s in %s", w, text)
		}
	}
}

// answers calls a tool of the first daemon; the answer must match all of want. The tool must
// be listed.
func answers(tool, args string, want ...string) check {
	return func(t *testing.T, m *migrated) {
		contains(t, m.first.call(t, tool, args), want...)
	}
}

func codeArgs(t *testing.T, code string) string {
	b, err := json.Marshal(map[string]string{"code": code})
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// evaluates runs code with the first seed's files; its answer must match want.
func evaluates(code string, want ...string) check {
	return func(t *testing.T, m *migrated) {
		contains(t, m.first.call(t, "execute_code", codeArgs(t, code)), want...)
	}
}

// executes is evaluates with the second seed's project.
func executes(code string, want ...string) check {
	return func(t *testing.T, m *migrated) {
		contains(t, m.second.call(t, "execute_code", codeArgs(t, code)), want...)
	}
}

// hints imports a module that does not exist in the sandbox; the hint must match want.
func hints(module, want string) check {
	return executes("import "+module, `"error_type":"ModuleNotFoundError"`, `"hint":"[^"]*`+want)
}

// prints runs a command in the second seed's project; its output must match all of want.
func prints(want string, args ...string) check {
	return func(t *testing.T, m *migrated) { contains(t, m.run(t, args...), want) }
}

// runsPython runs a program with sandpiper.compat, which prints want.
func runsPython(program, want string) check {
	return func(t *testing.T, m *migrated) {
		cmd := exec.CommandContext(t.Context(), m.python[0], "-W", "error", "-c", "from sandpiper.compat import *\n"+program)
		cmd.Dir, cmd.Env = m.python[1], m.pythonEnv
		out, err := cmd.CombinedOutput()
		if strings.TrimSpace(string(out)) != want || err != nil {
			t.Errorf("%v: %s", err, out)
		}
	}
}

// loads reads a configuration of the second seed with other lines in config.yaml and .env, as
// the user's own, and checks it. The directories of the seed exist.
func loads(yaml, dotenv string, environ []string, ok func(dir string, c *config.Config, warnings string) bool) check {
	return func(t *testing.T, _ *migrated) {
		dir := t.TempDir()
		files := maps.Clone(secondSeed)
		files["config.yaml"], files[".env"] = yaml, dotenv
		writeAll(t, dir, files)
		c, err := config.Load(config.Sources{Dir: dir, File: filepath.Join(dir, "config.yaml"), Environ: append(environ, "HOME="+dir),
			Features: daemon.Sections(feature.OfDaemon(all.Features()))})
		if err != nil {
			t.Fatal(err)
		}
		if warnings := strings.Join(c.Warnings, "\n"); !ok(dir, c, warnings) {
			t.Errorf("%+v", c)
		}
	}
}

// refuses reads such a config.yaml, which must fail with an error that matches want.
func refuses(yaml, want string) check {
	return func(t *testing.T, _ *migrated) {
		dir := t.TempDir()
		writeAll(t, dir, map[string]string{"config.yaml": yaml})
		_, err := config.Load(config.Sources{Dir: dir, File: filepath.Join(dir, "config.yaml"), Environ: []string{"HOME=" + dir}})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %s", err, want)
		}
	}
}

// allOf makes one check of several.
func allOf(checks ...check) check {
	return func(t *testing.T, m *migrated) {
		for _, f := range checks {
			f(t, m)
		}
	}
}

// exists checks that a file of the repository exists.
func exists(path string) check {
	return func(t *testing.T, _ *migrated) {
		if _, err := os.Stat(filepath.Join("../..", path)); err != nil {
			t.Error(err)
		}
	}
}
