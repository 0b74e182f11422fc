package main

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A client leaves during a call, the call ends, and the daemon is killed. Another daemon on
// the same data directory, such as the next one, sends the answer.
func TestAnswerSurvivesKilledDaemon(t *testing.T) {
	t.Parallel()
	needSandbox(t)
	d := startServing(t, "", "")
	killed := d.twin(t)
	v := killed.visitOlder()
	kept := filepath.Join(d.home, "data", "sandpiper", "private", "local", "streams", v.header[len(v.header)-1])
	before := fileSize(kept)
	ctx, leave := context.WithCancel(t.Context())
	res := v.must(v.call(ctx, "import time\ntime.sleep(0.5)\nresult = 'of the killed daemon'"))
	event := ""
	for lines := bufio.NewScanner(res.Body); event == "" && lines.Scan(); {
		event, _ = strings.CutPrefix(lines.Text(), "id: ")
		if !strings.HasSuffix(event, "_0") {
			event = ""
		}
	}
	leave()
	res.Body.Close()
	for fileSize(kept) == before && t.Context().Err() == nil {
		time.Sleep(10 * time.Millisecond)
	}
	killed.kill()
	v.daemonProcess = d
	r, err := v.request(t.Context(), http.MethodGet, nil, "Last-Event-ID", event)
	if err != nil {
		t.Fatal(err)
	}
	res = v.must(http.DefaultClient.Do(r))
	defer res.Body.Close()
	if body, err := io.ReadAll(res.Body); err != nil || !strings.Contains(string(body), "of the killed daemon") {
		t.Errorf("%s %s %v", res.Status, body, err)
	}
}

func fileSize(name string) int64 {
	fi, err := os.Stat(name)
	if err != nil {
		return 0
	}
	return fi.Size()
}

// killable is a daemon that a test kills.
type killable struct {
	*daemonProcess
	kill func()
}

// twin starts another daemon with the configuration and data of d.
func (d *daemonProcess) twin(t *testing.T) killable {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program)
	cmd.Args, cmd.Dir, cmd.Env = []string{"sandpiper", "serve", "--http", "127.0.0.1:0"}, d.home, d.env
	said, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	kill := func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	t.Cleanup(kill)
	first, _ := bufio.NewReader(said).ReadString('\n')
	url, ok := strings.CutPrefix(strings.TrimSpace(first), "MCP at ")
	if !ok {
		t.Fatalf("the daemon begins with %q", first)
	}
	twin := *d
	twin.url = url
	return killable{&twin, kill}
}
