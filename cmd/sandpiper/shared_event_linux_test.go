package main

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/longtest"
)

const sharedEventCode = `
import threading
got, wrong = [], []
def wait():
    try: got.append(wait_for("go"))
    except Exception as e: wrong.append(str(e))
threads = [threading.Thread(target=wait) for _ in range(8)]
for t in threads: t.start()
for t in threads: t.join()
result = sorted(got) + wrong`

// Eight threads of an execution wait for one event; each gets one of the signals.
func TestThreadsWaitForOneEvent(t *testing.T) {
	longtest.SkipSlow(t)
	t.Parallel()
	needSandbox(t)
	dir, _ := books(t)
	serve(t, dir)
	id := command(t, dir, "executions", "run", "--background", "-c", sharedEventCode)
	awaitState(t, dir, "running")
	var all sync.WaitGroup
	for n := range 8 {
		all.Go(func() { command(t, dir, "executions", "signal", id, "go", fmt.Sprint(n)) })
	}
	all.Wait()
	if got := strings.Join(strings.Fields(command(t, dir, "executions", "watch", id)), ""); got != "[0,1,2,3,4,5,6,7]" {
		t.Errorf("the threads got %s", got)
	}
}
