//go:build linux

package worker_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/worker"
)

// quickHost serves all calls at once, except those of the method "slow".
type quickHost struct{ echoHost }

func (h *quickHost) CallNow(ctx context.Context, method string, args []byte) ([]byte, bool, error) {
	if method == "slow" {
		return nil, false, nil
	}
	result, err := h.Call(ctx, method, args)
	return result, true, err
}

// serveCalls runs a program with a quickHost on a worker that talk plays.
func serveCalls(t *testing.T, talk func(c net.Conn) error) {
	t.Helper()
	ours, file, err := socketPair(unix.SOCK_STREAM)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	theirs, err := net.FileConn(file)
	if err != nil {
		t.Fatal(err)
	}
	defer theirs.Close()
	c := worker.New(ours, nil, nil, worker.Limits{ResultBytes: 1000})
	defer c.Close()
	talked := make(chan error, 1)
	go func() {
		_, err := readAnswer(theirs) // the code
		if err == nil {
			err = talk(theirs)
		}
		if err == nil {
			_, err = theirs.Write(frame(worker.Done, done))
		}
		talked <- err
	}()
	o, err := c.Run(context.Background(), 1, sandbox.Program{Code: "calls"}, &quickHost{})
	if err != nil || o.Status != sandbox.Completed {
		t.Errorf("%+v, %v", o, err)
	}
	theirs.Close()
	if err := <-talked; err != nil {
		t.Error(err)
	}
}

// readAnswer reads the payload of a frame from the daemon.
func readAnswer(r io.Reader) ([]byte, error) {
	var header [9]byte
	if _, err := io.ReadFull(r, header[:]); err != nil {
		return nil, err
	}
	p := make([]byte, int(header[0])<<24|int(header[1])<<16|int(header[2])<<8|int(header[3]))
	_, err := io.ReadFull(r, p)
	return p, err
}

func callOf(id int, method, text string) []byte {
	return frame(worker.Call, fmt.Sprintf(`{"id":%d,"method":%q,"args":%q}`, id, method, text))
}

func answerOf(id int, text string) string { return fmt.Sprintf(`{"id":%d,"result":%q}`, id, text) }

func TestQuickAndSlowCallsAreAnswered(t *testing.T) {
	serveCalls(t, func(c net.Conn) error {
		for id := range 500 {
			method, text := []string{"quick", "slow"}[id%2], strings.Repeat("x", id)
			if _, err := c.Write(callOf(id, method, text)); err != nil {
				return err
			}
			if p, err := readAnswer(c); err != nil || string(p) != answerOf(id, text) {
				return fmt.Errorf("call %d: the answer is %.100s, %w", id, p, err)
			}
		}
		return nil
	})
}

// A worker whose only thread sends a call cannot read the answer of an earlier one at
// the same time. Neither side may wait for the other.
func TestQuickCallsDoNotWaitUntilAnswersAreRead(t *testing.T) {
	const calls = 6
	large := strings.Repeat("large", 1<<19)
	serveCalls(t, func(c net.Conn) error {
		for id := range calls {
			if _, err := c.Write(callOf(id, "quick", large)); err != nil {
				return err
			}
		}
		for answered := make(map[string]bool); len(answered) < calls; {
			p, err := readAnswer(c)
			if err != nil {
				return err
			}
			id, _, _ := bytes.Cut(p, []byte(","))
			answered[string(id)] = true
			var n int
			if _, err := fmt.Sscanf(string(id), `{"id":%d`, &n); err != nil || string(p) != answerOf(n, large) {
				return fmt.Errorf("an answer of %d bytes is damaged: %.100s", len(p), p)
			}
		}
		return nil
	})
}
