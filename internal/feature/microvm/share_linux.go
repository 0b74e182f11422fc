//go:build amd64

package microvm

import (
	"errors"
	"io"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandpiper-mcp/sandpiper/internal/feature/microvm/launcher"
)

// share starts virtiofsd with the exports of s. Its launcher sends a connection to it over the
// returned socket.
//
// It runs as the tenant, and has two capabilities until it has made its directory the root and
// dropped them. Then it has the permissions of the tenant, whatever user the guest claims to be.
func (b *Backend) share(s start) (*child, *os.File, error) {
	ours, theirs, err := socketPair()
	if err != nil {
		return nil, nil, err
	}
	defer theirs.Close()
	p, err := b.starter.start(launcher.Config{
		Args: []string{b.virtiofsd, "--fd=" + strconv.Itoa(launcher.SharingFD), "-f", "--rlimit-nofile=0",
			// No time is given to cached names and attributes, since tools of the host change files too.
			"-o", "source=" + launcher.ExportDir + ",sandbox=chroot,cache=auto,timeout=0,no_xattr,log_level=warn",
			"-o", "modcaps=-chown:-dac_override:-fowner:-fsetid:-setgid:-setuid:-mknod:-setfcap"},
		UID: s.uid, Caps: []int{unix.CAP_SYS_CHROOT, unix.CAP_SETPCAP}, Exports: s.exports, Sharing: true, OpenFiles: 4096,
	}, theirs)
	if err != nil {
		ours.Close()
		return nil, nil, err
	}
	return p, ours, nil
}

// attachShared gives the guest the device of its exports.
func (v *vm) attachShared() error {
	connection, err := receiveFile(v.shared, v.soon())
	if err != nil {
		return err
	}
	defer connection.Close()
	if err := v.monitor.pass(v.soon(), "sharing", connection); err != nil {
		return err
	}
	address := map[string]any{"type": "fd", "data": map[string]any{"str": "sharing"}}
	backend := map[string]any{"type": "socket", "data": map[string]any{"addr": address, "server": false}}
	if err := v.monitor.do(v.soon(), nil, "chardev-add", map[string]any{"id": "sharing", "backend": backend}); err != nil {
		return err
	}
	return v.monitor.do(v.soon(), nil, "device_add", map[string]any{"driver": "vhost-user-fs-pci", "id": "shared", "chardev": "sharing",
		"tag": "shared"})
}

// receiveFile receives a descriptor over a socket.
func receiveFile(from *os.File, deadline time.Time) (*os.File, error) {
	_ = from.SetReadDeadline(deadline)
	c, err := from.SyscallConn()
	if err != nil {
		return nil, err
	}
	data, oob := make([]byte, 1), make([]byte, unix.CmsgSpace(4))
	n, oobn := 0, 0
	failed := c.Read(func(fd uintptr) bool {
		n, oobn, _, _, err = unix.Recvmsg(int(fd), data, oob, unix.MSG_CMSG_CLOEXEC)
		return err != unix.EAGAIN
	})
	if err := errors.Join(err, failed); err != nil {
		return nil, err
	}
	messages, err := unix.ParseSocketControlMessage(oob[:oobn])
	if err != nil || n == 0 || len(messages) != 1 {
		return nil, errors.Join(io.ErrUnexpectedEOF, err)
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fds[0]), "connection"), nil
}
