package keeper

import (
	"encoding/json"
	"io"

	"golang.org/x/sys/unix"
)

// control is the descriptor of the socket to the daemon. It is used without package
// net, whose initialization would make that of this package late.
const control = 3

// buf holds the message being received.
var buf [MaxMessage]byte

// receive reads one message into v and returns its descriptors. At the end of the
// connection it returns io.EOF.
func receive(v any) ([]int, error) {
	oob := make([]byte, unix.CmsgSpace(16*4))
	n, oobn, flags, _, err := unix.Recvmsg(control, buf[:], oob, unix.MSG_CMSG_CLOEXEC)
	for err == unix.EINTR {
		n, oobn, flags, _, err = unix.Recvmsg(control, buf[:], oob, unix.MSG_CMSG_CLOEXEC)
	}
	if err != nil {
		return nil, err
	}
	if n == 0 {
		return nil, io.EOF
	}
	fds := rights(oob[:oobn])
	if flags&unix.MSG_CTRUNC != 0 {
		err = unix.EMFILE
	} else {
		err = json.Unmarshal(buf[:n], v)
	}
	if err != nil {
		closeAll(fds)
		return nil, err
	}
	return fds, nil
}

func rights(oob []byte) (fds []int) {
	messages, _ := unix.ParseSocketControlMessage(oob)
	for i := range messages {
		some, _ := unix.ParseUnixRights(&messages[i])
		fds = append(fds, some...)
	}
	return fds
}

func send(v any, fds ...int) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	var oob []byte
	if len(fds) > 0 {
		oob = unix.UnixRights(fds...)
	}
	for err = unix.EINTR; err == unix.EINTR; {
		err = unix.Sendmsg(control, b, oob, nil, unix.MSG_NOSIGNAL)
	}
	return err
}

func closeAll(fds []int) {
	for _, fd := range fds {
		unix.Close(fd)
	}
}
