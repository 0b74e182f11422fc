package main

import (
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// Each start of the program initializes its packages. A regular expression that repeated classes
// of Unicode a hundred times allocated 4 MB, for several milliseconds of each start.
func TestPackagesInitializeLittle(t *testing.T) {
	cmd := exec.Command("sandpiper", "version")
	cmd.Env = append(cmd.Environ(), "GODEBUG=inittrace=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatal(err)
	}
	const most = 2_500_000 // half of it by these tests
	bytes, packages := 0, 0
	for _, m := range regexp.MustCompile(`(?m)^init (\S+) .* (\d+) bytes`).FindAllStringSubmatch(string(out), -1) {
		n, err := strconv.Atoi(m[2])
		if err != nil {
			t.Fatal(err)
		}
		if m[1] == "main" || strings.HasPrefix(m[1], "github.com/sandpiper-mcp/") {
			bytes, packages = bytes+n, packages+1
		}
	}
	if packages < 10 || bytes > most {
		t.Errorf("%d packages allocate %d bytes when they are initialized; at most %d are wanted", packages, bytes, most)
	}
}
