package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/longtest"
)

// A daemon that copies to a bucket is killed at any moment. What is restored is intact and at most some seconds old; the
// daemon continues the copy afterwards.
func TestKilledDaemonIsRestoredFromBucket(t *testing.T) {
	longtest.SkipSlow(t)
	needSandbox(t)
	t.Parallel()
	home, bucket := t.TempDir(), t.TempDir()
	config := fmt.Sprintf("store: {bucket: %q, sync: 200ms}\n", "file://"+bucket)
	for round := range 4 {
		p := connect(t, home, config, "2025-11-25", `{}`)
		n := 0
		for end := time.Now().Add(time.Second + rand.N(time.Second)); time.Now().Before(end); {
			n++
			code := fmt.Sprintf("n = %d\nsave_state('n', n)\nopen('n.txt', 'w').write(str(n) * 3000)\nsave_state('done', n)\nn", 1000*round+n)
			args, err := json.Marshal(map[string]any{"code": code})
			if err != nil {
				t.Fatal(err)
			}
			p.sendCall("execute_code", string(args), "")
			if r := p.nextMessage().result(t); !r.Success {
				t.Fatalf("%+v", r)
			}
		}
		if round%2 == 0 {
			time.Sleep(2 * time.Second) // the last state is in the bucket then
		}
		p.kill()

		to := filepath.Join(t.TempDir(), "data")
		c := sandpiper(home, "store", "restore", "--to", filepath.Join(to, "sandpiper"))
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("round %d: %v\n%s", round, err, out)
		}
		expectIntact(t, filepath.Join(to, "sandpiper"))
		state := restoredText(t, home, to, "state", "get", "n")
		if last := fmt.Sprint(1000*round + n); round%2 == 0 && state != last {
			t.Errorf("round %d: the state is %s seconds after it was %s", round, state, last)
		}
		if file := restoredText(t, home, to, "files", "cat", "n.txt"); round%2 == 0 && file != strings.Repeat(state, 3000) {
			t.Errorf("round %d: the file is not of the last execution: %.20s", round, file)
		}
		if out, err := sandpiper(home, "store", "check").CombinedOutput(); err != nil {
			t.Errorf("round %d: %v\n%s", round, err, out)
		}
	}
}

// restoredText returns what a command prints of a restored data directory.
func restoredText(t *testing.T, home, data string, args ...string) string {
	t.Helper()
	none := filepath.Join(data, "none.yaml")
	if err := os.WriteFile(none, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	c := sandpiper(home, args...)
	c.Env = append(c.Env, "XDG_DATA_HOME="+data, "SANDPIPER_CONFIG="+none)
	out, err := c.Output()
	if err != nil {
		t.Fatalf("%v: %v", args, err)
	}
	return strings.TrimSpace(string(out))
}
