package launcher

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"runtime"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/process/keeper"
)

// init becomes the program, if this process was started as a launcher.
func init() {
	if len(os.Args) == 0 || os.Args[0] != Name {
		return
	}
	runtime.LockOSThread() // capabilities belong to a thread
	fmt.Fprintln(os.Stderr, "launcher:", run())
	os.Exit(1)
}

func run() error {
	var c Config
	f := os.NewFile(ConfigFD, "config")
	if err := json.NewDecoder(f).Decode(&c); err != nil {
		return fmt.Errorf("reading the configuration: %w", err)
	}
	unix.CloseOnExec(ConfigFD) // open until then, to learn that the daemon has died
	if err := unix.CloseRange(uint(ConfigFD+1+c.Files), ^uint(0)>>1, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return fmt.Errorf("close_range: %w", err)
	}
	if c.Sharing {
		if err := listen(); err != nil {
			return fmt.Errorf("listening: %w", err)
		}
	}
	if err := buildRoot(c); err != nil {
		return err
	}
	if err := dropPrivileges(c); err != nil {
		return err
	}
	if err := dieWithDaemon(f); err != nil {
		return err
	}
	return fmt.Errorf("%s: %w", c.Args[0], unix.Exec(c.Args[0], c.Args, []string{"PATH=/usr/bin", "LANG=C.UTF-8", "TMPDIR=/tmp"}))
}

// listen implements Config.Sharing.
func listen() error {
	var fds [2]int
	for i := range fds {
		var err error
		if fds[i], err = unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0); err != nil {
			return err
		}
		defer unix.Close(fds[i])
	}
	at := &unix.SockaddrUnix{Name: "@sharing"} // a name in the network namespace
	if err := unix.Bind(fds[0], at); err != nil {
		return err
	}
	if err := unix.Listen(fds[0], 1); err != nil {
		return err
	}
	if err := unix.Connect(fds[1], at); err != nil {
		return err
	}
	if err := unix.Sendmsg(SharingFD, []byte{0}, unix.UnixRights(fds[1]), nil, unix.MSG_NOSIGNAL); err != nil {
		return err
	}
	return unix.Dup3(fds[0], SharingFD, 0)
}

// hostDirs have the program, its libraries and its data. Some are symbolic links to others.
var hostDirs = []string{"/usr", "/lib", "/lib64", "/lib32", "/bin", "/sbin"}

var devices = []string{"/dev/null", "/dev/urandom"}

const readOnly = unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV

// tree is a detached mount and its place.
type tree struct {
	fd   int
	to   string
	file bool
}

// buildRoot assembles the private root and makes it the root.
func buildRoot(c Config) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("making mounts private: %w", err)
	}
	trees, links, err := sources(c)
	if err != nil {
		return err
	}
	const base = "/usr" // exists, and is cloned
	if err := unix.Mount("microvm", base, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "size=64k,mode=755"); err != nil {
		return fmt.Errorf("mounting the private root: %w", err)
	}
	if err := unix.Chdir(base); err != nil {
		return err
	}
	for to, target := range links {
		if err := os.Symlink(target, "."+to); err != nil {
			return err
		}
	}
	for _, t := range trees {
		if err := t.attach(); err != nil {
			return fmt.Errorf("mounting %s: %w", t.to, err)
		}
	}
	for _, dir := range []string{"/proc", "/tmp"} {
		if err := os.MkdirAll("."+dir, 0o755); err != nil {
			return err
		}
	}
	if err := unix.Mount("proc", "proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mounting proc: %w", err)
	}
	return keeper.Pivot(unix.MOUNT_ATTR_NOEXEC)
}

// sources clones everything that the private root contains.
func sources(c Config) (trees []tree, links map[string]string, err error) {
	links = map[string]string{}
	add := func(to string, file bool, attr uint64) error {
		fd, err := keeper.CloneTree(unix.AT_FDCWD, to, unix.MountAttr{Attr_set: attr, Propagation: unix.MS_PRIVATE})
		trees = append(trees, tree{fd, to, file})
		return err
	}
	for _, dir := range hostDirs {
		if target, err := os.Readlink(dir); err == nil {
			links[dir] = target
			continue
		}
		if _, err := os.Stat(dir); err != nil {
			continue
		}
		if err := add(dir, false, readOnly); err != nil {
			return nil, nil, fmt.Errorf("%s: %w", dir, err)
		}
	}
	for _, list := range [][]string{devices, c.Devices} {
		for _, dev := range list {
			if err := add(dev, true, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC); err != nil {
				return nil, nil, fmt.Errorf("%s: %w", dev, err)
			}
		}
	}
	for i, e := range c.Exports {
		fd, err := e.clone()
		if err != nil {
			return nil, nil, fmt.Errorf("mount %s of %s: %w", e.Name, e.Root, err)
		}
		trees = append(trees, tree{fd, path.Join(ExportDir, strconv.Itoa(i)), false})
	}
	return trees, links, nil
}

func (e Export) clone() (int, error) {
	root, err := unix.Open(e.Root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	defer unix.Close(root)
	attr := uint64(unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV | unix.MOUNT_ATTR_NOEXEC)
	if e.ReadOnly {
		attr |= unix.MOUNT_ATTR_RDONLY
	}
	return keeper.CloneBeneath(root, e.Name, attr)
}

// attach mounts t below the current directory.
func (t tree) attach() error {
	at := "." + t.to
	dir := at
	if t.file {
		dir = path.Dir(at)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if t.file {
		if err := os.WriteFile(at, nil, 0o444); err != nil {
			return err
		}
	}
	defer unix.Close(t.fd)
	return unix.MoveMount(t.fd, "", unix.AT_FDCWD, at, unix.MOVE_MOUNT_F_EMPTY_PATH)
}

// oomScoreAdj makes the kernel kill a guest before any other process of the host.
const oomScoreAdj = "900"

// capLast is the largest capability that may exist.
const capLast = 63

// dropPrivileges changes the user and keeps only c.Caps, also when the program is executed.
func dropPrivileges(c Config) error {
	if err := os.WriteFile("/proc/self/oom_score_adj", []byte(oomScoreAdj), 0); err != nil {
		return err
	}
	for which, limit := range map[int]uint64{unix.RLIMIT_NOFILE: c.OpenFiles, unix.RLIMIT_CORE: 1} { // see noCore of package process
		if err := unix.Setrlimit(which, &unix.Rlimit{Cur: limit, Max: limit}); err != nil {
			return fmt.Errorf("setting limit %d: %w", which, err)
		}
	}
	kept := uint64(0)
	for _, n := range c.Caps {
		kept |= 1 << n
	}
	for n := range capLast + 1 {
		if kept&(1<<n) == 0 {
			if err := unix.Prctl(unix.PR_CAPBSET_DROP, uintptr(n), 0, 0, 0); err != nil && !errors.Is(err, unix.EINVAL) {
				return fmt.Errorf("dropping capability %d: %w", n, err)
			}
		}
	}
	if c.UID != 0 {
		if err := changeUser(c); err != nil {
			return err
		}
	}
	if err := setCapabilities(kept); err != nil {
		return err
	}
	for _, n := range c.Caps {
		if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_RAISE, uintptr(n), 0, 0); err != nil {
			return fmt.Errorf("keeping capability %d: %w", n, err)
		}
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("no_new_privs: %w", err)
	}
	return nil
}

// changeUser makes c.UID the user of this thread. Its capabilities are kept until they are set.
func changeUser(c Config) error {
	if err := unix.Prctl(unix.PR_SET_KEEPCAPS, 1, 0, 0, 0); err != nil {
		return err
	}
	if len(c.Groups) > 0 {
		groups := make([]uint32, len(c.Groups))
		for i, g := range c.Groups {
			groups[i] = uint32(g)
		}
		if _, _, errno := unix.RawSyscall(unix.SYS_SETGROUPS, uintptr(len(groups)), uintptr(unsafe.Pointer(&groups[0])), 0); errno != 0 {
			return fmt.Errorf("setgroups: %w", errno)
		}
	}
	id := uintptr(c.UID)
	if _, _, errno := unix.RawSyscall(unix.SYS_SETRESGID, id, id, id); errno != 0 {
		return fmt.Errorf("setresgid: %w", errno)
	}
	if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, id, id, id); errno != 0 {
		return fmt.Errorf("setresuid: %w", errno)
	}
	return nil
}

func setCapabilities(kept uint64) error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	for i := range data {
		low := uint32(kept >> (32 * i))
		data[i] = unix.CapUserData{Effective: low, Permitted: low, Inheritable: low}
	}
	if err := unix.Capset(&header, &data[0]); err != nil {
		return fmt.Errorf("capset: %w", err)
	}
	return nil
}

// dieWithDaemon makes the kernel kill this process when the thread of the daemon that started
// it ends. Changes of credentials before would undo it.
func dieWithDaemon(config *os.File) error {
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return fmt.Errorf("setting the death signal: %w", err)
	}
	// The daemon keeps its end of the pipe open.
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(config.Fd())}}, 0)
	if err == nil && n > 0 {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return fmt.Errorf("the daemon has ended: %w", err)
	}
	return nil
}
