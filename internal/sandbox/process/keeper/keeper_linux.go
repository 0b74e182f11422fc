package keeper

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"runtime"
	"slices"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// init runs the keeper and exits, if this process was started as one. It does so before
// main, since the many packages of the program that are initialized after this one
// would take four times the keeper's own time, and ten times its memory.
func init() {
	if len(os.Args) == 0 || os.Args[0] != Name {
		return
	}
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// run builds the private root and handles requests until the daemon's end of the socket
// closes. The exit of this process, pid 1 of its namespaces, ends all others in them.
func run() error {
	unix.CloseRange(control, ^uint(0)>>1, unix.CLOSE_RANGE_CLOEXEC)
	k := &keeper{roots: map[string]int{}, started: make(chan struct{}, 1)}
	if _, err := receive(&k.init); err != nil {
		return err
	}
	if err := k.setUp(); err != nil {
		_ = send(failed("setup", err))
		return err
	}
	if err := send(Answer{}); err != nil {
		return err
	}
	go k.reap()
	return k.serve()
}

type keeper struct {
	init    Init
	roots   map[string]int // key -> descriptor of the directory
	started chan struct{}  // receives when a zygote was started
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
	if err := k.openRoots(); err != nil {
		return err
	}
	if k.off("seccomp") {
		return nil
	}
	return loadFilter(k.init.Filter)
}

// loadFilter installs program for every thread and child of this process. It needs
// CAP_SYS_ADMIN, since no_new_privs is a separate layer.
func loadFilter(program []byte) error {
	if len(program) == 0 {
		return errors.New("the keeper received no seccomp filter")
	}
	fprog := unix.SockFprog{Len: uint16(len(program) / 8), Filter: (*unix.SockFilter)(unsafe.Pointer(&program[0]))}
	r, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC,
		uintptr(unsafe.Pointer(&fprog)))
	runtime.KeepAlive(program)
	if errno != 0 {
		return fmt.Errorf("loading the keeper's seccomp filter: %w", errno)
	}
	if r != 0 {
		return fmt.Errorf("loading the keeper's seccomp filter: thread %d has another one", r)
	}
	return nil
}

func (k *keeper) openRoots() error {
	for key := range k.init.Roots {
		fd, err := unix.Open(path.Join(RootsDir, key), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("opening root %s: %w", key, err)
		}
		k.roots[key] = fd
	}
	return nil
}

func (k *keeper) serve() error {
	for {
		var r Request
		fds, err := receive(&r)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		answer, out := k.handle(r, fds)
		closeAll(fds)
		err = send(answer, out...)
		closeAll(out)
		if err != nil {
			return err
		}
	}
}

func (k *keeper) handle(r Request, fds []int) (Answer, []int) {
	switch r.Op {
	case "zygote":
		pidfd, err := k.startZygote(fds, r.Apart)
		if err != nil {
			return failed("zygote", err), nil
		}
		return Answer{}, []int{pidfd}
	case "bind":
		out, err := k.bind(r.Mount)
		if err != nil {
			closeAll(out)
			return failed("bind", err), nil
		}
		return Answer{}, out
	case "place":
		if err := k.place(r, fds); err != nil {
			return failed("place", err), nil
		}
		return Answer{}, nil
	}
	return Answer{Error: "unknown request " + r.Op}, nil
}

func failed(step string, err error) Answer {
	a := Answer{Error: err.Error(), Step: step}
	errors.As(err, &a.Errno)
	return a
}

// bind returns a detached mount for each of mounts. A name is one path element below
// its root and never a link.
func (k *keeper) bind(mounts []Mount) ([]int, error) {
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

func (k *keeper) bindOne(m Mount) (int, error) {
	root, ok := k.roots[m.Root]
	if !ok {
		return -1, errors.New("no such root")
	}
	attr := unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV | noExec(k.init)
	if m.ReadOnly {
		attr |= unix.MOUNT_ATTR_RDONLY
	}
	return CloneBeneath(root, m.Name, attr)
}

// CloneBeneath returns a detached copy of the mount of the directory name in root, which may
// not be a link.
func CloneBeneath(root int, name string, attr uint64) (int, error) {
	dir, err := unix.Openat2(root, name, &unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	})
	if err != nil {
		return -1, fmt.Errorf("openat2: %w", err)
	}
	defer unix.Close(dir)
	return CloneTree(dir, "", unix.MountAttr{Attr_set: attr, Propagation: unix.MS_PRIVATE})
}

// CloneTree returns a detached copy of the mount at path below dir, with attr.
func CloneTree(dir int, path string, attr unix.MountAttr) (int, error) {
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
// socket and its stderr. It returns a pidfd. With apart it cannot see processes of others.
func (k *keeper) startZygote(fds []int, apart bool) (int, error) {
	if len(fds) != 2 {
		return -1, errors.New("a zygote needs two descriptors")
	}
	python, args, env := ZygoteCommand(k.init.Packages != "")
	null, err := unix.Open("/dev/null", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("opening /dev/null: %w", err)
	}
	defer unix.Close(null)
	var pidfd int
	attr := &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS, PidFD: &pidfd}
	if !k.off("net") {
		attr.Cloneflags |= unix.CLONE_NEWNET
	}
	if apart {
		attr.Cloneflags |= unix.CLONE_NEWPID | unix.CLONE_NEWIPC
	}
	_, err = syscall.ForkExec(python, args, &syscall.ProcAttr{
		Dir: "/", Env: env, Sys: attr,
		Files: []uintptr{uintptr(null), uintptr(null), uintptr(fds[1]), uintptr(fds[0])},
	})
	if err != nil {
		return -1, fmt.Errorf("starting %s: %w", python, err)
	}
	select {
	case k.started <- struct{}{}:
	default:
	}
	return pidfd, nil
}

// ZygoteCommand returns the program of a zygote in the private root, its arguments and its environment.
func ZygoteCommand(packages bool) (program string, args, env []string) {
	const dir = "/python"
	// -P and -s equal -I except that the environment is read, which is set below.
	args = []string{"python3", "-P", "-s", "-B", "-X", "utf8", "-c",
		"import gc, sys; gc.disable(); sys.path.insert(0, '" + dir + "'); from sandpiper import zygote; sys.path.remove('" + dir +
			"'); zygote.main()"}
	if env = zygoteEnv; packages {
		env = slices.Concat(env, packageEnv)
	}
	return Python, args, env
}

// zygoteEnv is the environment of a zygote.
var zygoteEnv = []string{
	"PATH=/python/bin", "HOME=/workspace", "TMPDIR=/tmp", "LANG=C.UTF-8", "TZ=UTC", "USER=sandbox", "LOGNAME=sandbox",
	"PYTHONDONTWRITEBYTECODE=1", "PYTHONUTF8=1",
	// With a fixed hash seed, sets of strings have the same order in every worker,
	// so that code can be replayed. Colliding keys, which a random seed prevents,
	// affect only the execution that processes them.
	"PYTHONHASHSEED=0",
	// every thread's malloc arena would keep freed memory that counts towards the memory limit
	"MALLOC_ARENA_MAX=2",
}

// packageEnv configures known packages: no threads, which a fork would lose; images instead of windows; a writable directory.
var packageEnv = []string{
	"OPENBLAS_NUM_THREADS=1", "OMP_NUM_THREADS=1", "MKL_NUM_THREADS=1", "NUMEXPR_NUM_THREADS=1",
	"MPLBACKEND=module://sandpiper.figures", "MPLCONFIGDIR=/tmp", "POLARS_TEMP_DIR=/tmp",
}

// reap waits for all children. When a zygote ends, the keeper as pid 1 becomes the
// parent of its workers and must wait for them, or they remain zombies.
func (k *keeper) reap() {
	for {
		if _, err := unix.Wait4(-1, nil, 0, nil); err == unix.ECHILD {
			<-k.started
		}
	}
}
