package process

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/process/keeper"
)

// The daemon, its keeper and its zygotes exchange JSON objects with
// descriptors over SOCK_SEQPACKET sockets: one message a packet.

// buffers is a pool of buffers for one message each.
var buffers = sync.Pool{New: func() any { return new([keeper.MaxMessage]byte) }}

// packetPair returns our end as a connection and the other end as a file for a child.
func packetPair() (*net.UnixConn, *os.File, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("socketpair: %w", err)
	}
	other := os.NewFile(uintptr(fds[1]), "control")
	f := os.NewFile(uintptr(fds[0]), "socket")
	defer f.Close()
	conn, err := net.FileConn(f)
	if err != nil {
		other.Close()
		return nil, nil, err
	}
	return conn.(*net.UnixConn), other, nil
}

func send(c *net.UnixConn, v any, fds ...int) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	var oob []byte
	if len(fds) > 0 {
		oob = unix.UnixRights(fds...)
	}
	_, _, err = c.WriteMsgUnix(b, oob, nil)
	return err
}

// receive reads one message into v and returns its descriptors. At the end of the
// connection it returns io.EOF. If the process cannot receive all descriptors, it
// sets v and returns errShortage without descriptors.
func receive(c *net.UnixConn, v any) ([]int, error) {
	buf, oob := buffers.Get().(*[keeper.MaxMessage]byte), make([]byte, unix.CmsgSpace(16*4))
	defer buffers.Put(buf)
	n, oobn, flags, _, err := c.ReadMsgUnix(buf[:], oob)
	if err != nil {
		return nil, err
	}
	if n == 0 {
		return nil, io.EOF
	}
	fds, err := rights(oob[:oobn])
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(buf[:n], v); err != nil {
		closeAll(fds)
		return nil, err
	}
	if flags&unix.MSG_CTRUNC != 0 {
		closeAll(fds)
		return nil, errShortage
	}
	return fds, nil
}

// errShortage reports that the process has too few free descriptors to receive some.
var errShortage = fmt.Errorf("receiving descriptors: %w", unix.EMFILE)

func rights(oob []byte) ([]int, error) {
	if len(oob) == 0 {
		return nil, nil
	}
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil, err
	}
	if len(messages) != 1 {
		return nil, errors.New("more than one control message")
	}
	return unix.ParseUnixRights(&messages[0]) // ReadMsgUnix has set close-on-exec
}

func closeAll(fds []int) {
	for _, fd := range fds {
		unix.Close(fd)
	}
}
