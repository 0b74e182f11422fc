package internal_test

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// ratchetFile has a line for each recorded value: its kind, its name, the number and, if it has
// risen, the reason.
const ratchetFile = "testdata/ratchet.txt"

// Bounds of what ratchetFile does not list.
const (
	maxMethods  = 20 // of a type
	maxBack     = 20 // percent of the references between the files of a package with more than smallFiles files
	smallFiles  = 8
	maxFunction = 60  // lines
	maxFile     = 400 // lines
	maxColumns  = 140 // of a line, with tabs of four
)

// hard lists the kinds of values that may only fall, with the rule. The others may rise with a reason.
var hard = map[string]string{
	"methods":  fmt.Sprintf("a type has at most %d methods; find the second noun", maxMethods),
	"back":     fmt.Sprintf("at most %d %% of the references between files of a package go back up", maxBack),
	"function": fmt.Sprintf("a function has at most %d lines", maxFunction),
	"file":     fmt.Sprintf("a file has at most %d lines", maxFile),
	"wide":     fmt.Sprintf("a line has at most %d columns", maxColumns),
}

// recorded is one line of ratchetFile.
type recorded struct {
	number int
	reason string
}

// TestRatchet compares the structure and the size of the program with the recorded values.
// UPDATE_SCRIPTS=1 lowers recorded values; a number that rises is edited by hand, with its reason.
func TestRatchet(t *testing.T) {
	now := measureProgram(t)
	before := readRatchet(t)
	for _, problem := range exceeded(before, now) {
		t.Error(problem)
		if name, back := strings.CutPrefix(problem, "back "); back {
			name, _, _ = strings.Cut(name, " ")
			t.Logf("the references of %s that go back up: %s", name, strings.Join(backReferences(t, name), ", "))
		}
	}
	lower := lowered(before, now)
	for _, key := range slices.Sorted(maps.Keys(before)) {
		if was, is := before[key], lower[key]; was != is {
			t.Logf("%s is %d, recorded as %d: the recorded value can be lowered (UPDATE_SCRIPTS=1)", key, is.number, was.number)
		}
	}
	if os.Getenv("UPDATE_SCRIPTS") != "" {
		if err := os.WriteFile(ratchetFile, formatRatchet(lower), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// exceeded returns a message for each value of now that is above its recorded one, or is not
// recorded and above the bounds.
func exceeded(before map[string]recorded, now map[string]int) (problems []string) {
	for _, key := range slices.Sorted(maps.Keys(now)) {
		r, listed := before[key]
		switch {
		case listed && now[key] <= r.number:
		case listed && isHard(key):
			problems = append(problems, fmt.Sprintf("%s is %d, recorded as %d: it may only fall", key, now[key], r.number))
		case listed:
			problems = append(problems, fmt.Sprintf("%s is %d, recorded as %d: make it smaller, or raise the number in %s and write the "+
				"reason beside it", key, now[key], r.number, ratchetFile))
		case isHard(key):
			problems = append(problems, fmt.Sprintf("%s is %d: %s", key, now[key], hard[kind(key)]))
		default:
			problems = append(problems, fmt.Sprintf("%s is %d and not recorded: add it to %s with a reason", key, now[key], ratchetFile))
		}
	}
	return problems
}

// lowered returns the recorded values, each at most as high as the present one, without those of
// types and packages that are gone.
func lowered(before map[string]recorded, now map[string]int) map[string]recorded {
	lower := map[string]recorded{}
	for key, r := range before {
		if n, ok := now[key]; ok {
			lower[key] = recorded{min(n, r.number), r.reason}
		}
	}
	return lower
}

func kind(key string) string {
	k, _, _ := strings.Cut(key, " ")
	return k
}

func isHard(key string) bool { return hard[kind(key)] != "" }

// TestRatchetFileOnlyGoesDown follows the file through the history of this checkout: no hard number
// rises or appears, and each soft number that rises has a new reason.
func TestRatchetFileOnlyGoesDown(t *testing.T) {
	versions := ratchetHistory(t)
	for i := 1; i < len(versions); i++ {
		for _, problem := range risen(versions[i-1].values, versions[i].values) {
			t.Errorf("%s: %s", versions[i].name, problem)
		}
	}
}

// risen returns a message for each value that rose from one version of the file to the next against the rules.
func risen(before, after map[string]recorded) (problems []string) {
	kinds := map[string]bool{} // that the program was measured by
	for key := range before {
		kinds[kind(key)] = true
	}
	for _, key := range slices.Sorted(maps.Keys(after)) {
		was, listed := before[key]
		is := after[key]
		switch {
		case listed && is.number <= was.number:
		case isHard(key) && listed:
			problems = append(problems, fmt.Sprintf("%s rises from %d to %d: it may only fall", key, was.number, is.number))
		case isHard(key) && (!kinds[kind(key)] || movedFrom(key, before, after)):
		case isHard(key):
			problems = append(problems, fmt.Sprintf("%s is new: what was not listed stays within the bounds", key))
		case is.reason == "" || is.reason == was.reason:
			problems = append(problems, fmt.Sprintf("%s rises from %d to %d without a new reason beside it", key, was.number, is.number))
		}
	}
	return problems
}

// movedFrom reports whether the package of a key had another path before: its number is not above that of
// a key of the same package name that is gone.
func movedFrom(key string, before, after map[string]recorded) bool {
	_, at, _ := strings.Cut(key, " ")
	for was, r := range before {
		_, wasAt, _ := strings.Cut(was, " ")
		_, stays := after[was]
		if kind(was) == kind(key) && path.Base(wasAt) == path.Base(at) && !stays && r.number >= after[key].number {
			return true
		}
	}
	return false
}

func TestRatchetRules(t *testing.T) {
	before := map[string]recorded{"methods a.T": {30, ""}, "back a": {9, ""}, "lines all": {100, "tables"}, "count keys": {5, ""}}
	equal := map[string]int{"methods a.T": 30, "back a": 9, "lines all": 100, "count keys": 5}
	if problems := exceeded(before, equal); problems != nil {
		t.Errorf("equal values: %q", problems)
	}
	for key, n := range map[string]int{"methods a.T": 31, "back a": 10, "lines all": 101, "count keys": 6, "methods b.T": 21, "back b": 4,
		"lines internal/b": 1} {
		now := maps.Clone(equal)
		now[key] = n
		problems := exceeded(before, now)
		if len(problems) != 1 || !strings.HasPrefix(problems[0], fmt.Sprintf("%s is %d", key, n)) {
			t.Errorf("%s %d: %q", key, n, problems)
		}
		after := maps.Clone(before)
		after[key] = recorded{n, before[key].reason}
		if problems := risen(before, after); len(problems) != 1 {
			t.Errorf("%s recorded as %d: %q", key, n, problems)
		}
		after[key] = recorded{n, "a reason"}
		if problems := risen(before, after); len(problems) != 0 != isHard(key) {
			t.Errorf("%s recorded as %d with a reason: %q", key, n, problems)
		}
	}
	moved := map[string]recorded{"methods b/a.T": {30, ""}, "back b/a": {9, ""}, "lines all": {100, "tables"}, "count keys": {5, ""}}
	if problems := risen(before, moved); problems != nil {
		t.Errorf("a moved package: %q", problems)
	}
	moved["methods b/a.T"] = recorded{31, ""}
	if problems := risen(before, moved); len(problems) != 1 {
		t.Errorf("a moved package with another method: %q", problems)
	}
	measured := map[string]recorded{"methods a.T": {30, ""}, "back a": {9, ""}, "lines all": {100, "tables"}, "count keys": {5, ""},
		"file a/b.go": {500, ""}}
	if problems := risen(before, measured); problems != nil {
		t.Errorf("files are measured as well: %q", problems)
	}
	less := map[string]int{"methods a.T": 12, "lines all": 99}
	want := map[string]recorded{"methods a.T": {12, ""}, "lines all": {99, "tables"}}
	if got := lowered(before, less); !maps.Equal(got, want) {
		t.Errorf("lowered %v, want %v", got, want)
	}
}

type ratchetVersion struct {
	name   string // of the commit
	values map[string]recorded
}

// ratchetHistory returns the versions of the file, the oldest first and that of the working tree last.
func ratchetHistory(t *testing.T) []ratchetVersion {
	log, err := exec.Command("git", "log", "--first-parent", "--reverse", "--format=%H", "--", ratchetFile).Output()
	if err != nil {
		t.Skipf("the history is not here: git log: %v", err)
	}
	var versions []ratchetVersion
	for _, commit := range strings.Fields(string(log)) {
		text, err := exec.Command("git", "show", commit+":./"+ratchetFile).Output()
		if err != nil {
			t.Fatalf("git show %s: %v", commit, err)
		}
		versions = append(versions, ratchetVersion{commit[:8], parseRatchet(t, text)})
	}
	return append(versions, ratchetVersion{"working tree", readRatchet(t)})
}

func readRatchet(t *testing.T) map[string]recorded {
	text, err := os.ReadFile(ratchetFile)
	if err != nil {
		t.Fatal(err)
	}
	return parseRatchet(t, text)
}

// parseRatchet reads lines of the form "kind name number reason". Lines that begin with # are comments.
func parseRatchet(t *testing.T, text []byte) map[string]recorded {
	t.Helper()
	values := map[string]recorded{}
	for line := range bytes.Lines(text) {
		line = bytes.TrimSpace(line)
		if len(line) == 0 || line[0] == '#' {
			continue
		}
		words := strings.SplitN(string(line), " ", 4)
		if len(words) < 3 {
			t.Fatalf("%s: the line %q has no kind, name and number", ratchetFile, line)
		}
		n, err := strconv.Atoi(words[2])
		key := words[0] + " " + words[1]
		if _, twice := values[key]; err != nil || twice {
			t.Fatalf("%s: the number of the line %q is none, or its name is there twice", ratchetFile, line)
		}
		values[key] = recorded{n, strings.Join(words[3:], "")}
	}
	return values
}

func formatRatchet(values map[string]recorded) []byte {
	b := bytes.NewBufferString(`# Recorded values of TestRatchet (internal/ratchet_test.go): kind, name, number, reason.
#
# methods  methods of a type with more than 20
# back     references between the files of a package that go back up, in the best order found
# function lines of a function with more than 60
# file     lines of a file with more than 400
# wide     lines of more than 140 columns
# lines    lines of code, tests and comments not counted, of a tree of packages
# count    direct dependencies, commands, keys of the configuration, words of docs/
#
# lines and count rise in a commit that writes the reason here. The others may only fall.
`)
	for _, key := range slices.Sorted(maps.Keys(values)) {
		fmt.Fprintln(b, strings.TrimSpace(fmt.Sprintf("%s %d %s", key, values[key].number, values[key].reason)))
	}
	return b.Bytes()
}
