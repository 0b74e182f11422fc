//go:build amd64

package microvm

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// qmp is a connection to QEMU's monitor, see docs/interop/qmp-spec.rst of QEMU.
type qmp struct {
	mu     sync.Mutex
	f      *os.File
	in     *json.Decoder
	events map[string]bool // received and not yet awaited
}

type qmpMessage struct {
	Return json.RawMessage `json:"return"`
	Error  *struct {
		Desc string `json:"desc"`
	} `json:"error"`
	Event string `json:"event"`
}

// maxMonitor bounds what a monitor sends in its life. A guest may have taken over its QEMU.
const maxMonitor = 64 << 20

func newQMP(f *os.File) *qmp {
	return &qmp{f: f, in: json.NewDecoder(io.LimitReader(f, maxMonitor)), events: map[string]bool{}}
}

// do executes a command and decodes its result into v, if that is not nil.
func (q *qmp) do(deadline time.Time, v any, command string, args map[string]any) error {
	return q.send(deadline, v, command, args, nil)
}

// pass gives QEMU a descriptor of f under a name.
func (q *qmp) pass(deadline time.Time, name string, f *os.File) error {
	return q.send(deadline, nil, "getfd", map[string]any{"fdname": name}, unix.UnixRights(int(f.Fd())))
}

func (q *qmp) send(deadline time.Time, v any, command string, args map[string]any, rights []byte) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	request := map[string]any{"execute": command}
	if args != nil {
		request["arguments"] = args
	}
	_ = q.f.SetDeadline(deadline)
	if err := q.write(request, rights); err != nil {
		return fmt.Errorf("QEMU %s: %w", command, err)
	}
	for {
		m, err := q.next()
		switch {
		case err != nil:
			return fmt.Errorf("QEMU %s: %w", command, err)
		case m.Error != nil:
			return fmt.Errorf("QEMU %s: %s", command, m.Error.Desc)
		case m.Return != nil && v != nil:
			return json.Unmarshal(m.Return, v)
		case m.Return != nil:
			return nil
		}
	}
}

// write writes a request, which fits the buffer of the socket.
func (q *qmp) write(request map[string]any, rights []byte) error {
	text, err := json.Marshal(request)
	if err != nil {
		return err
	}
	if rights == nil {
		_, err = q.f.Write(text)
		return err
	}
	c, err := q.f.SyscallConn()
	if err != nil {
		return err
	}
	failed := c.Write(func(fd uintptr) bool {
		err = unix.Sendmsg(int(fd), text, rights, nil, unix.MSG_NOSIGNAL)
		return err != unix.EAGAIN
	})
	return errors.Join(err, failed)
}

// await waits for an event that has occurred since the last await.
func (q *qmp) await(deadline time.Time, event string) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	_ = q.f.SetDeadline(deadline)
	for !q.events[event] {
		if _, err := q.next(); err != nil {
			return fmt.Errorf("waiting for QEMU's event %s: %w", event, err)
		}
	}
	delete(q.events, event)
	return nil
}

func (q *qmp) next() (qmpMessage, error) {
	var m qmpMessage
	err := q.in.Decode(&m)
	if m.Event != "" {
		q.events[m.Event] = true
	}
	return m, err
}
