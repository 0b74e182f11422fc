package session_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/home/session"
)

const directoryOfKilled = "SESSION_TEST_DIRECTORY"

// TestAppendUntilKilled is a process that TestKilledProcessesLoseNoStep starts.
func TestAppendUntilKilled(t *testing.T) {
	dir := os.Getenv(directoryOfKilled)
	if dir == "" {
		t.Skip("TestKilledProcessesLoseNoStep starts it")
	}
	h := openHome(t, dir, session.Config{Steps: 100_000})
	for n := 0; ; n++ {
		key, err := h.Append(t.Context(), "a", session.Step{Code: fmt.Sprint(n), Record: []byte("calls"), Recorded: session.Complete})
		if err != nil {
			t.Fatal(err)
		}
		fmt.Println(key, n)
		if n%50 == 49 {
			if _, err := h.List(t.Context()); err != nil { // stores the steps of both processes
				t.Fatal(err)
			}
		}
	}
}

// Two processes on one directory are killed. No step that they had acknowledged is lost, or stored twice.
func TestKilledProcessesLoseNoStep(t *testing.T) {
	dir := t.TempDir()
	acknowledged, total := map[string]string{}, 0
	for round := range 8 {
		var out [2]*bufio.Scanner
		var killed [2]*exec.Cmd
		for i := range out {
			c := exec.Command(os.Args[0], "-test.run", "^TestAppendUntilKilled$")
			c.Env = append(os.Environ(), directoryOfKilled+"="+dir)
			printed, err := c.StdoutPipe()
			if err == nil {
				err = c.Start()
			}
			if err != nil {
				t.Fatal(err)
			}
			out[i], killed[i] = bufio.NewScanner(printed), c
		}
		for n := 0; n < 1+round*9; n++ {
			for _, printed := range out {
				printed.Scan()
				if strings.HasPrefix(printed.Text(), "---") { // it failed
					for printed.Scan() {
						t.Log(printed.Text())
					}
				}
				addStep(t, printed.Text(), acknowledged)
			}
		}
		for i, c := range killed {
			_ = c.Process.Kill()
			for out[i].Scan() {
				addStep(t, out[i].Text(), acknowledged)
			}
			_ = c.Wait()
		}
		steps, err := openHome(t, dir, session.Config{Steps: 100_000}).Replay(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		total = len(steps)
		for i, s := range steps {
			if code, ok := acknowledged[s.Key]; ok && (code != s.Code || s.Recorded != session.Complete) || s.Number != steps[0].Number+i {
				t.Errorf("step %d has the number %d and the code %s", i, s.Number, s.Code)
			}
			delete(acknowledged, s.Key)
		}
		if len(acknowledged) > 0 {
			t.Errorf("round %d: %d steps are lost", round, len(acknowledged))
		}
	}
	if left, err := filepath.Glob(filepath.Join(dir, "tenant.db-steps-*")); len(left) != 0 || total < 100 {
		t.Errorf("the logs %q, %v, %d steps", left, err, total)
	}
}

// addStep adds a line of a process, which may be cut.
func addStep(t *testing.T, line string, steps map[string]string) {
	t.Helper()
	key, code, ok := strings.Cut(line, " ")
	if !ok || len(key) < 26 {
		t.Fatalf("the process printed %q", line)
	}
	steps[key] = code
}
