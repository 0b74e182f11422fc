//go:build amd64

package microvm

import (
	"net"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/microvm/launcher"
)

// share starts virtiofsd with the exports of s, and returns QEMU's end of a connection to it.
//
// It runs as the tenant, and has two capabilities until it has made its directory the root and
// dropped them. Then it has the permissions of the tenant, whatever user the guest claims to be.
func (b *Backend) share(s start) (*child, *os.File, error) {
	listener, connection, err := connect(b.cfg.State)
	if err != nil {
		return nil, nil, err
	}
	defer listener.Close() // else QEMU would wait if virtiofsd does not start
	p, err := b.starter.start(launcher.Config{
		Args: []string{b.virtiofsd, "--fd=" + strconv.Itoa(launcher.ConfigFD+1), "-f", "--rlimit-nofile=0",
			// No time is given to cached names and attributes, since tools of the host change files too.
			"-o", "source=" + launcher.ExportDir + ",sandbox=chroot,cache=auto,timeout=0,no_xattr,log_level=warn",
			"-o", "modcaps=-chown:-dac_override:-fowner:-fsetid:-setgid:-setuid:-mknod:-setfcap"},
		UID: s.uid, Caps: []int{unix.CAP_SYS_CHROOT, unix.CAP_SETPCAP}, Exports: s.exports, OpenFiles: 4096,
	}, listener)
	if err != nil {
		connection.Close()
		return nil, nil, err
	}
	return p, connection, nil
}

// socketPrefix is that of a directory that exists while connect runs.
const socketPrefix = "microvm-"

// connect returns a listening socket without a name, and a connection to it.
func connect(dir string) (listener, connection *os.File, err error) {
	if dir, err = os.MkdirTemp(dir, socketPrefix); err != nil {
		return nil, nil, err
	}
	defer os.RemoveAll(dir)
	d, err := os.Open(dir)
	if err != nil {
		return nil, nil, err
	}
	defer d.Close()
	at := &net.UnixAddr{Name: filepath.Join(fdPath(int(d.Fd())), "s"), Net: "unix"} // a path of any length
	l, err := net.ListenUnix("unix", at)
	if err != nil {
		return nil, nil, err
	}
	defer l.Close()
	c, err := net.DialUnix("unix", nil, at)
	if err != nil {
		return nil, nil, err
	}
	defer c.Close()
	if listener, err = l.File(); err != nil {
		return nil, nil, err
	}
	if connection, err = c.File(); err != nil {
		listener.Close()
		return nil, nil, err
	}
	return listener, connection, nil
}
