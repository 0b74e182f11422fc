package confine

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strconv"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/process"
)

// The limits of a child in its environment, which it clears.
const (
	memoryVariable = "CONFINE_MEMORY"
	cpuVariable    = "CONFINE_CPU"
)

// exitLockdown is the exit status of a child that could not be locked down.
const exitLockdown = 70

const (
	maxStack = 64 << 20 // of one goroutine
	nobody   = 65534
)

// Main answers and exits, if this process was started by Run with name; otherwise it returns.
// Call it from an init of the package that parses.
func Main(name string, answer func(input []byte) []byte) {
	if len(os.Args) == 0 || os.Args[0] != name {
		return
	}
	if err := lockDown(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(exitLockdown)
	}
	in, err := io.ReadAll(stdio(0))
	if err == nil {
		_, err = stdio(1).Write(answer(in))
	}
	if err != nil {
		os.Exit(1)
	}
	os.Exit(0)
}

// stdio is a standard descriptor, read and written without the poller, which needs
// descriptors of its own.
type stdio int

func (fd stdio) Read(p []byte) (int, error) {
	for {
		n, err := unix.Read(int(fd), p)
		switch {
		case err == unix.EINTR:
		case err != nil:
			return 0, err
		case n == 0:
			return 0, io.EOF
		default:
			return n, nil
		}
	}
}

func (fd stdio) Write(p []byte) (written int, err error) {
	for written < len(p) {
		n, err := unix.Write(int(fd), p[written:])
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return written, err
		}
		written += n
	}
	return written, nil
}

// lockDown removes everything that the process does not need to compute, and tests it.
func lockDown() error {
	memory, err1 := strconv.ParseUint(os.Getenv(memoryVariable), 10, 63)
	cpu, err2 := strconv.ParseUint(os.Getenv(cpuVariable), 10, 31)
	if err := errors.Join(err1, err2); err != nil {
		return fmt.Errorf("limits: %w", err)
	}
	os.Clearenv()
	debug.SetMaxStack(maxStack)
	debug.SetMemoryLimit(int64(memory - memory/4)) // collect garbage before the kernel refuses more
	time.Sleep(time.Nanosecond)                    // the runtime's first timer opens the poller, if no init has
	if err := closeDescriptors(); err != nil {
		return fmt.Errorf("closing descriptors: %w", err)
	}
	filter := process.ConfinedFilter()
	for _, step := range []struct {
		name string
		do   func() error
	}{
		{"limits", func() error { return setLimits(memory, cpu) }},
		{"changing to nobody", becomeNobody},
		{"no_new_privs", func() error { return unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }},
		{"dumpable", func() error { return unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0) }},
		{"landlock", landlock},
		{"descriptors", func() error { return limit(unix.RLIMIT_NOFILE, 3) }}, // after landlock, which uses one
		{"seccomp", func() error { return loadFilter(filter) }},
		{"the test of it", probe},
	} {
		if err := step.do(); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
	}
	return nil
}

// closeDescriptors closes the descriptors that were inherited or opened by an init, except the runtime's
// poller: an epoll instance and an eventfd.
func closeDescriptors() error {
	names, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return err
	}
	for _, e := range names {
		fd, err := strconv.Atoi(e.Name())
		if err != nil || fd < 3 {
			continue
		}
		what, err := os.Readlink("/proc/self/fd/" + e.Name())
		if err != nil { // that of ReadDir, which is closed
			continue
		}
		if what != "anon_inode:[eventpoll]" && what != "anon_inode:[eventfd]" {
			_ = unix.Close(fd)
		}
	}
	return nil
}

// setLimits sets limits that the process cannot raise. RLIMIT_AS is not among them: the runtime
// reserves address space that it does not use. RLIMIT_DATA counts writable memory.
func setLimits(memory, cpu uint64) error {
	return errors.Join(limit(unix.RLIMIT_CORE, 0), limit(unix.RLIMIT_FSIZE, 0), limit(unix.RLIMIT_CPU, cpu), limit(unix.RLIMIT_DATA, memory+stacks()))
}

func limit(resource int, value uint64) error {
	return unix.Setrlimit(resource, &unix.Rlimit{Cur: value, Max: value})
}

// becomeNobody changes root to nobody, without groups and capabilities. A container may lack that
// uid or the right to change to it; seccomp refuses every call that a capability could be used for.
func becomeNobody() error {
	if os.Geteuid() != 0 {
		return nil
	}
	for _, set := range []func() error{
		func() error { return syscall.Setgroups(nil) },
		func() error { return syscall.Setresgid(nobody, nobody, nobody) },
		func() error { return syscall.Setresuid(nobody, nobody, nobody) },
	} {
		if err := set(); err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.EPERM) {
			return err
		}
	}
	return nil
}

// Landlock rights, by the version of the ABI that added them.
var landlockRights = map[int]uint64{1: 0x1fff, 2: 0x3fff, 3: 0x7fff, 4: 0x7fff, 5: 0xffff}

// landlock denies access to all files by name, to TCP, and to processes and abstract sockets
// outside, as far as the kernel can.
func landlock() error {
	version, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno == unix.ENOSYS || errno == unix.EOPNOTSUPP {
		return nil
	}
	if errno != 0 {
		return errno
	}
	abi := int(version)
	attr := unix.LandlockRulesetAttr{Handled_access_fs: landlockRights[min(abi, 5)]}
	size := unsafe.Sizeof(attr.Handled_access_fs)
	if abi >= 4 {
		attr.Handled_access_net, size = unix.LANDLOCK_ACCESS_NET_BIND_TCP|unix.LANDLOCK_ACCESS_NET_CONNECT_TCP, size+unsafe.Sizeof(attr.Handled_access_net)
	}
	if abi >= 6 {
		attr.Scoped, size = unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET|unix.LANDLOCK_SCOPE_SIGNAL, size+unsafe.Sizeof(attr.Scoped)
	}
	rules, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), size, 0)
	if errno != 0 {
		return errno
	}
	defer unix.Close(int(rules))
	return restrictThreads(rules)
}

// restrictThreads applies a ruleset to all threads; in a build with cgo, which cannot, to this
// one. The filter applies to all of them in any case.
func restrictThreads(rules uintptr) error {
	_, _, errno := syscall.AllThreadsSyscall(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0)
	if errno == unix.ENOTSUP {
		_, _, errno = unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, rules, 0, 0)
	} else if errno == 0 {
		_, _, errno = syscall.AllThreadsSyscall(unix.SYS_LANDLOCK_RESTRICT_SELF, rules, 0, 0)
	}
	if errno != 0 {
		return errno
	}
	return nil
}

// loadFilter installs a seccomp program for all threads, and with it no_new_privs.
func loadFilter(program []byte) error {
	fprog := unix.SockFprog{Len: uint16(len(program) / 8), Filter: (*unix.SockFilter)(unsafe.Pointer(&program[0]))}
	r, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&fprog)))
	if errno != 0 {
		return errno
	}
	if r != 0 {
		return fmt.Errorf("thread %d has another filter", r)
	}
	return nil
}

// probe tests that calls which reach something fail.
func probe() error {
	if fd, err := unix.Open("/", unix.O_PATH, 0); err == nil {
		return fmt.Errorf("a file could be opened as descriptor %d", fd)
	}
	if fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0); err == nil {
		return fmt.Errorf("a socket could be opened as descriptor %d", fd)
	}
	if _, _, errno := unix.RawSyscall(unix.SYS_KILL, 1, 0, 0); errno == 0 {
		return errors.New("another process could be signalled")
	}
	return nil
}
