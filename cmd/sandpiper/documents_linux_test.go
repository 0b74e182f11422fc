package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/longtest"
)

// A console block of a page, and the comment before it: commands that the test runs first, or the reason why
// the block is not run.
var consoleBlock = regexp.MustCompile("(?ms)(?:^<!-- (setup|not run):(.*?)-->\n\n?)?^```console\n(.*?)^```$")

// maxNotRun limits the console blocks that are marked as not run.
const maxNotRun = 18

// The console blocks of README.md and docs print what they show. UPDATE_SCRIPTS writes what they print to the
// pages. A comment before a block changes that:
//
//	<!-- setup: COMMANDS -->    runs commands, which print nothing, before the block
//	<!-- not run: REASON -->    leaves the block out
//
// In what a page shows, "…" is any text, on a line of its own any lines, and ids, times and durations may
// differ.
func TestDocuments(t *testing.T) {
	t.Parallel()
	if os.Getenv("EXAMPLE_SERVERS") != "" {
		t.Skip("the pages build programs")
	}
	needSandbox(t)
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	pages, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil || len(pages) == 0 {
		t.Fatal(pages, err)
	}
	servers := exampleServers(t)
	variables := append(pageEnv(t), "REPOSITORY="+root)
	notRun := 0
	for _, page := range append(pages, filepath.Join(root, "README.md")) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		blocks := consoleBlock.FindAllStringSubmatch(string(text), -1)
		run := 0
		for _, b := range blocks {
			if b[1] != "not run" {
				run++
			} else if strings.TrimSpace(b[2]) == "" {
				t.Errorf("%s: a block is not run, without a reason", page)
			}
		}
		notRun += len(blocks) - run
		if run > 0 && filepath.Base(page) != "serving.md" { // TestServingTranscript
			t.Run(filepath.Base(page), func(t *testing.T) {
				t.Parallel()
				if filepath.Base(page) != "README.md" {
					longtest.SkipSlow(t)
				}
				runPage(t, page, string(text), servers, variables)
			})
		}
		if prompt := regexp.MustCompile("(?m)^```(|sh|bash|text)\n\\$ .*").FindString(string(text)); prompt != "" {
			t.Errorf("%s: %q begins a block with a prompt that is not console", page, prompt)
		}
	}
	if notRun > maxNotRun {
		t.Errorf("%d console blocks are not run, which were at most %d", notRun, maxNotRun)
	}
}

// pageEnv returns the environment of the commands of a page, besides its own HOME.
func pageEnv(t *testing.T) []string {
	t.Helper()
	names := []string{"GOCACHE", "GOMODCACHE", "GOPROXY", "GOFLAGS"}
	out, err := exec.Command("go", append([]string{"env"}, names...)...).Output()
	if err != nil {
		t.Fatal(err)
	}
	// Without cgo go install finds in the cache what the other tests have built.
	variables := []string{"CGO_ENABLED=0", "XDG_CACHE_HOME=" + os.Getenv("XDG_CACHE_HOME")}
	for i, value := range strings.Split(strings.TrimSuffix(string(out), "\n"), "\n") {
		variables = append(variables, names[i]+"="+value)
	}
	return variables
}

func runPage(t *testing.T, page, text, servers string, variables []string) {
	home := t.TempDir()
	writeOwnFiles(t, home)
	bin := filepath.Join(home, "go", "bin") // of go install
	s := startShell(t, home, map[string]string{"/home/me": home},
		slices.Concat(variables, []string{"GOBIN=" + bin, "PATH=" + bin + ":" + servers + ":" + os.Getenv("PATH")}))
	got := consoleBlock.ReplaceAllStringFunc(text, func(part string) string {
		b := consoleBlock.FindStringSubmatch(part)
		if b[1] == "not run" {
			return part
		}
		if b[1] == "setup" {
			if said := s.run(b[2]); said != "" {
				t.Errorf("the setup printed:\n%s", said)
			}
		}
		before, block, _ := strings.Cut(part, "```console\n")
		return before + s.repeat("```console\n"+block)
	})
	checkOwnFiles(t, home)
	if inOwnDirectory[filepath.Base(page)] {
		checkInOwnDirectory(t, home, text)
	}
	if os.Getenv("UPDATE_SCRIPTS") != "" {
		if err := os.WriteFile(page, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(strings.Split(text, "\n"), strings.Split(got, "\n")); diff != "" {
		t.Errorf("%s differs from what its commands print (+); UPDATE_SCRIPTS=1 updates it:\n%s", page, diff)
	}
}

// ownFiles are files of clients in the home of a reader, which no page changes.
var ownFiles = map[string]string{
	".claude.json":     `{"mcpServers": {"github": {"command": "npx", "args": ["-y", "server-github"]}}}`,
	".cursor/mcp.json": `{"mcpServers": {"notes": {"command": "notes-mcp"}}}`,
}

func writeOwnFiles(t *testing.T, home string) {
	t.Helper()
	for name, text := range ownFiles {
		file := filepath.Join(home, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func checkOwnFiles(t *testing.T, home string) {
	t.Helper()
	for name, want := range ownFiles {
		if got, err := os.ReadFile(filepath.Join(home, name)); err != nil || string(got) != want {
			t.Errorf("the page changed ~/%s: %s %v", name, got, err)
		}
	}
}

// inOwnDirectory are the pages that a new reader follows first.
var inOwnDirectory = map[string]bool{"README.md": true, "tutorial.md": true}

var writtenID = regexp.MustCompile(`(?m)^[$>] .*(exec_[a-z2-7]{26}|\[[A-Z_]+_[a-z0-9]{8,64}\])`)

// checkInOwnDirectory reports commands that use the reader's own configuration or data, or that contain an id,
// which differs for each reader.
func checkInOwnDirectory(t *testing.T, home, text string) {
	t.Helper()
	for _, name := range []string{".config/sandpiper/sandpiper.yaml", ".local/share/sandpiper"} {
		if _, err := os.Stat(filepath.Join(home, name)); err == nil {
			t.Errorf("the page writes ~/%s", name)
		}
	}
	for _, block := range consoleBlock.FindAllStringSubmatch(text, -1) {
		if id := writtenID.FindStringSubmatch(block[3]); id != nil {
			t.Errorf("a command contains %s, which differs for each reader", id[1])
		}
	}
}
