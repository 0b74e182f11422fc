package process

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path"
	"slices"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// keeperName is argv[0] of the keeper, for which the program re-executes itself.
const keeperName = "sandpiper-sandbox-keeper"

// Main runs the keeper and exits if the process was started as a sandbox keeper;
// otherwise it returns. A program that uses this package must call it first, test
// binaries included.
func Main() {
	if os.Args[0] != keeperName {
		return
	}
	if err := runKeeper(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// keeperInit is the first message to a keeper.
type keeperInit struct {
	Python    string            // directory of the interpreter
	Libraries map[string]string // host path -> path inside
	Packages  string            // directory of packages, or ""
	Roots     map[string]string // key -> host directory
	Disabled  []string
}

type keeperRequest struct {
	Op    string // "zygote" or "bind"
	Mount []bindMount
	Net   bool
}

type bindMount struct {
	Root, Name string
	ReadOnly   bool
}

type keeperAnswer struct {
	Error string
	Step  string // the failed step
	PID   int    // of a zygote, in the keeper's namespace
}

// runKeeper runs the keeper: pid 1 of the backend's namespaces, which builds the
// private root, starts zygotes, and alone sees the roots of the mounts. It returns
// when the daemon's end of the socket closes; its exit ends the pid namespace.
func runKeeper() error {
	unix.CloseRange(3, ^uint(0)>>1, unix.CLOSE_RANGE_CLOEXEC)
	conn, err := connOf(3)
	if err != nil {
		return err
	}
	defer conn.Close()
	var init keeperInit
	if _, err := receive(conn, &init); err != nil {
		return err
	}
	k := &keeper{init: init, roots: map[string]int{}}
	if err := k.setUp(); err != nil {
		_ = send(conn, keeperAnswer{Error: err.Error(), Step: "setup"})
		return err
	}
	if !k.off("seccomp") {
		if err := loadFilter(filter(keeperRules())); err != nil {
			_ = send(conn, keeperAnswer{Error: err.Error(), Step: "setup"})
			return err
		}
	}
	if err := send(conn, keeperAnswer{}); err != nil {
		return err
	}
	return k.serve(conn)
}

type keeper struct {
	init    keeperInit
	roots   map[string]int // key -> descriptor of the directory
	reaping sync.Once      // started with the first zygote
}

func (k *keeper) off(layer string) bool { return slices.Contains(k.init.Disabled, layer) }

func (k *keeper) setUp() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("making mounts private: %w", err)
	}
	if !k.off("uts") { // else it would change the host's name
		if err := unix.Sethostname([]byte("sandbox")); err != nil {
			return fmt.Errorf("setting the host name: %w", err)
		}
	}
	if err := buildRoot(k.init); err != nil {
		return err
	}
	return k.openRoots()
}

func (k *keeper) openRoots() error {
	for key := range k.init.Roots {
		fd, err := unix.Open(path.Join(rootsDir, key), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("opening root %s: %w", key, err)
		}
		k.roots[key] = fd
	}
	return nil
}

func (k *keeper) serve(conn *net.UnixConn) error {
	for {
		var r keeperRequest
		fds, err := receive(conn, &r)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		answer, out := k.handle(r, fds)
		closeAll(fds)
		err = send(conn, answer, out...)
		closeAll(out)
		if err != nil {
			return err
		}
	}
}

func (k *keeper) handle(r keeperRequest, fds []int) (keeperAnswer, []int) {
	switch r.Op {
	case "zygote":
		pidfd, err := k.startZygote(fds)
		if err != nil {
			return keeperAnswer{Error: err.Error(), Step: "zygote"}, nil
		}
		return keeperAnswer{}, []int{pidfd}
	case "bind":
		out, err := k.bind(r.Mount)
		if err != nil {
			closeAll(out)
			return keeperAnswer{Error: err.Error(), Step: "bind"}, nil
		}
		return keeperAnswer{}, out
	}
	return keeperAnswer{Error: "unknown request " + r.Op}, nil
}

// bind returns a detached mount for each of mounts. A name is one path element below
// its root and never a link.
func (k *keeper) bind(mounts []bindMount) ([]int, error) {
	var out []int
	for _, m := range mounts {
		fd, err := k.bindOne(m)
		if err != nil {
			return out, fmt.Errorf("mount %s of root %s: %w", m.Name, m.Root, err)
		}
		out = append(out, fd)
	}
	return out, nil
}

func (k *keeper) bindOne(m bindMount) (int, error) {
	root, ok := k.roots[m.Root]
	if !ok {
		return -1, errors.New("no such root")
	}
	dir, err := unix.Openat2(root, m.Name, &unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	})
	if err != nil {
		return -1, fmt.Errorf("openat2: %w", err)
	}
	defer unix.Close(dir)
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV, Propagation: unix.MS_PRIVATE}
	if !k.off("noexec") {
		attr.Attr_set |= unix.MOUNT_ATTR_NOEXEC
	}
	if m.ReadOnly {
		attr.Attr_set |= unix.MOUNT_ATTR_RDONLY
	}
	return cloneTree(dir, "", attr)
}

// cloneTree returns a detached copy of the mount at path below dir, with attr.
func cloneTree(dir int, path string, attr unix.MountAttr) (int, error) {
	const flags = unix.AT_EMPTY_PATH | unix.AT_RECURSIVE
	fd, err := unix.OpenTree(dir, path, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|flags)
	if err != nil {
		return -1, fmt.Errorf("open_tree: %w", err)
	}
	if err := unix.MountSetattr(fd, "", flags, &attr); err != nil {
		unix.Close(fd)
		return -1, fmt.Errorf("mount_setattr: %w", err)
	}
	return fd, nil
}

// startZygote starts an interpreter that forks workers; fds are its control
// socket and its stderr. It returns a pidfd.
func (k *keeper) startZygote(fds []int) (int, error) {
	if len(fds) != 2 {
		return -1, errors.New("a zygote needs two descriptors")
	}
	const python, dir = "/python/bin/python3.14", "/python"
	var flags uintptr = unix.CLONE_NEWNS
	if !k.off("net") {
		flags |= unix.CLONE_NEWNET
	}
	control, stderr := os.NewFile(uintptr(dupFD(fds[0])), "control"), os.NewFile(uintptr(dupFD(fds[1])), "stderr")
	defer control.Close()
	defer stderr.Close()
	var pidfd int
	cmd := &exec.Cmd{
		Path: python,
		// -P and -s equal -I except that the environment is read, which is set below.
		Args: []string{"python3", "-P", "-s", "-B", "-X", "utf8", "-c",
			"import sys; sys.path.insert(0, '" + dir + "'); from sandpiper import zygote; sys.path.remove('" + dir + "'); zygote.main()"},
		Env: []string{
			"PATH=/python/bin", "HOME=/workspace", "TMPDIR=/tmp", "LANG=C.UTF-8", "TZ=UTC", "USER=sandbox", "LOGNAME=sandbox",
			"PYTHONDONTWRITEBYTECODE=1", "PYTHONUTF8=1",
			// With a fixed hash seed, sets of strings have the same order in every worker,
			// so that code can be replayed. Colliding keys, which a random seed prevents,
			// affect only the execution that processes them.
			"PYTHONHASHSEED=0",
			// every thread's malloc arena would reserve 64 MiB of the address space that RLIMIT_AS bounds
			"MALLOC_ARENA_MAX=2",
		},
		Dir:         "/",
		Stderr:      stderr,
		ExtraFiles:  []*os.File{control},
		SysProcAttr: &syscall.SysProcAttr{Cloneflags: flags, PidFD: &pidfd},
	}
	if k.init.Packages != "" {
		cmd.Env = append(cmd.Env, packageEnv...)
	}
	if err := cmd.Start(); err != nil {
		return -1, fmt.Errorf("starting %s: %w", python, err)
	}
	k.reaping.Do(func() { go reap() })
	return pidfd, cmd.Process.Release()
}

// packageEnv configures known packages: no threads, which a fork would lose and which
// reserve address space; images instead of windows; a writable directory.
var packageEnv = []string{
	"OPENBLAS_NUM_THREADS=1", "OMP_NUM_THREADS=1", "MKL_NUM_THREADS=1", "NUMEXPR_NUM_THREADS=1",
	"MPLBACKEND=Agg", "MPLCONFIGDIR=/tmp",
}

// reap waits for all children. When a zygote ends, the keeper as pid 1 becomes the
// parent of its workers and must wait for them, or they remain zombies.
func reap() {
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, unix.SIGCHLD)
	for {
		pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil)
		if pid <= 0 && err != unix.EINTR {
			<-ended
		}
	}
}

// dupFD duplicates fd, for an os.File that owns the copy.
func dupFD(fd int) int {
	n, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return -1
	}
	return n
}
