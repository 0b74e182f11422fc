package process

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
)

// Memory of the kernel, which only a cgroup counts exactly. Without one the watch adds an upper bound,
// as if everything that code can create had its largest size. The filter refuses what cannot be counted;
// see uncountedRules. Measured on Linux 6.18 with 4 KB pages, for one of each:
//
//	kind                          holds at most             counts as
//	socket of a pair              213 KB and one message    net.core.wmem_default and 48 KB
//	pipe                          64 KB                     64 KB
//	epoll watch, if allowed       0.2 KB                    256 bytes
//	other file, eventfd, timerfd  1.2 KB                    2 KB
//	file in /tmp or /dev/shm      1.3 KB                    1.5 KB and its content
//	record lock                   0.2 KB                    16 KB
//	mapping                       0.2 KB, copied by forks   256 bytes, from 1,000 on more
//	page table                    4 KB                      4 KB, as memory of the process
//	thread or process             30 KB                     nothing; 128 hold 4 MB
//	queued signal                 0.1 KB                    nothing; 256 for all
//
// /proc is not mounted, whose files have buffers. Workers cannot create others: memfd, signalfd, inotify, fanotify,
// io_uring, aio, bpf, perf, userfaultfd, keys,
// netlink and network sockets, descriptors in flight (sendmsg), FIFOs, POSIX message queues and timers, SysV IPC,
// terminals, and mounts. TestKindsOfKernelMemoryAreRefused tries all.
const (
	pipeBytes    = 64 << 10 // code cannot enlarge it
	excessBytes  = 48 << 10 // of the message that fills a socket
	watchBytes   = 256      // of epoll
	fileBytes    = 2 << 10
	scratchBytes = 3 << 9   // of a file in a tmpfs, without its content
	lockBytes    = 16 << 10 // more than a lock takes, so that /proc/locks stays short
	mappingBytes = 256
	chainBytes   = 64 // of a mapping, for each process that it may have been copied from
	usualMaps    = 1000
	mostMaps     = 65530
)

// mappingMemory returns what the mappings of one of some processes take. Those of a program with large
// libraries are not copied often; more may be those of a chain of forks.
func mappingMemory(mappings int64, processes int) int64 {
	return mappings*mappingBytes + max(0, mappings-usualMaps)*(mappingBytes+chainBytes*int64(processes))
}

// usualSocketBytes is the capacity of a socket with the kernel's default for net.core.wmem_default.
const usualSocketBytes = 212992 + excessBytes

// hostSocketBytes is the capacity of a socket on this host. Code cannot enlarge it.
var hostSocketBytes = sync.OnceValue(func() int64 {
	b, _ := os.ReadFile("/proc/sys/net/core/wmem_default")
	return max(number(string(bytes.TrimSpace(b)))+excessBytes, usualSocketBytes)
})

// uncountedRules change the rules of workers without a cgroup, so that no memory escapes the watch.
func uncountedRules(rules map[int]rule) {
	// Shared memory without a file stays allocated when all but one page of it is unmapped. Module
	// mmap of the guest uses a file in /dev/shm instead.
	const shared = unix.MAP_SHARED | unix.MAP_ANONYMOUS
	rules[unix.SYS_MMAP] = rule{when: []condition{{arg: 3, mask: shared, value: shared, then: refuse}}, otherwise: allow}
	// A socket or pipe would keep whole pages for single bytes, also of a file that is truncated. Callers
	// fall back on ENOTSOCK.
	rules[unix.SYS_SENDFILE] = rule{otherwise: unix.SECCOMP_RET_ERRNO | verdict(unix.ENOTSOCK)}
	// These locks have no process in /proc/locks.
	files := rules[unix.SYS_FCNTL]
	files.when = slices.Concat(files.when, noneOf(1, unix.F_OFD_SETLK, unix.F_OFD_SETLKW).when)
	rules[unix.SYS_FCNTL] = files
}

// kernelUse is the memory of the kernel for code, in bytes, by purpose.
type kernelUse struct {
	sockets, pipes, files, mappings, locks int64

	socketBytes int64 // of each
}

func (u kernelUse) total() int64 { return u.sockets + u.pipes + u.files + u.mappings + u.locks }

func (u kernelUse) String() string {
	var parts []string
	for _, p := range []struct {
		bytes int64
		what  string
	}{
		{u.sockets, fmt.Sprintf("sockets (%d of %d KB; see net.core.wmem_default)", u.sockets/max(1, u.socketBytes), u.socketBytes>>10)},
		{u.pipes, "pipes"}, {u.files, "open files and watches of epoll"}, {u.mappings, "mappings"}, {u.locks, "record locks"},
	} {
		if p.bytes >= 1<<20 {
			parts = append(parts, fmt.Sprintf("%d MB for %s", p.bytes>>20, p.what))
		}
	}
	return strings.Join(parts, ", ")
}

// mappingsMost bounds the time between two counts of mappings, since a busy machine makes a count long.
const mappingsMost = 4 * watchMost

// kernelMemory measures the memory of the kernel. Counting mappings may take long, so it takes
// one part in watchShare of the time, or more after mappingsMost.
type kernelMemory struct {
	socketBytes int64 // that a socket can hold
	limit       int64 // of all memory

	mappings int64 // bytes, when counted last
	next     time.Time
}

func (b *Backend) newKernelMemory(limits sandbox.Limits) kernelMemory {
	return kernelMemory{socketBytes: b.socketBytes, limit: limits.MemoryBytes}
}

// of returns the memory of the kernel for processes, at least if it exceeds free.
func (k *kernelMemory) of(uses []memoryUse, free int64) kernelUse {
	used := kernelUse{socketBytes: k.socketBytes, locks: lockMemory(uses, free)}
	seen := map[string]bool{}
	for _, u := range uses {
		if used.total() > free {
			return used
		}
		k.addDescriptors(&used, u.dir, seen)
	}
	var most int64
	for _, u := range uses {
		most += mappingMemory(min(mostMaps, u.size>>12), len(uses))
	}
	if used.total()+most <= free {
		return used
	}
	if started := time.Now(); started.After(k.next) {
		k.mappings = 0
		for _, u := range uses {
			if u.size == 0 {
				continue
			}
			if k.mappings += mappingMemory(countLines(u.dir+"/maps"), len(uses)); used.total()+k.mappings > free {
				used.mappings = k.mappings
				return used // and count again next time, since some are not counted
			}
		}
		k.next = time.Now().Add(min(watchShare*time.Since(started), mappingsMost))
	}
	used.mappings = k.mappings
	return used
}

// lockMemory returns the memory of the record locks of processes, at least if it exceeds limit.
func lockMemory(uses []memoryUse, limit int64) (used int64) {
	f, err := os.Open("/proc/locks")
	if err != nil {
		return 0
	}
	defer f.Close()
	for s := bufio.NewScanner(f); used <= limit && s.Scan(); { // 1: [->] POSIX ADVISORY WRITE 1234 …
		field := bytes.Fields(s.Bytes())
		if len(field) > 5 && string(field[1]) == "->" {
			field = field[1:]
		}
		if len(field) > 4 && slices.ContainsFunc(uses, func(u memoryUse) bool { return u.pid == string(field[4]) }) {
			used += lockBytes
		}
	}
	return used
}

// addDescriptors adds what the descriptors of a process, of a directory in /proc, can hold, except for
// sockets and pipes already seen.
func (k *kernelMemory) addDescriptors(used *kernelUse, dir string, seen map[string]bool) {
	f, err := os.Open(dir + "/fd")
	if err != nil {
		return
	}
	defer f.Close()
	first := func(link string) bool {
		known := seen[link]
		seen[link] = true
		return !known
	}
	names, _ := f.Readdirnames(-1)
	buffer := make([]byte, 64)
	for _, name := range names {
		n, err := unix.Readlinkat(int(f.Fd()), name, buffer)
		if err != nil {
			continue
		}
		switch link := string(buffer[:n]); {
		case strings.HasPrefix(link, "socket:"):
			if first(link) {
				used.sockets += k.socketBytes
			}
		case strings.HasPrefix(link, "pipe:"):
			if first(link) {
				used.pipes += pipeBytes
			}
		case link == "anon_inode:[eventpoll]":
			used.files += fileBytes + watchBytes*countLines(dir+"/fdinfo/"+name)
		default:
			used.files += fileBytes
		}
	}
}

// countLines returns the number of lines of a file.
func countLines(name string) (lines int64) {
	f, err := os.Open(name)
	if err != nil {
		return 0
	}
	defer f.Close()
	for buffer := make([]byte, 1<<16); ; {
		n, err := f.Read(buffer)
		lines += int64(bytes.Count(buffer[:n], []byte("\n")))
		if err != nil {
			return lines
		}
	}
}

// threadOf returns the directory in /proc of a process, or of one of its threads if the first one
// has ended and has no memory and no descriptors, with the fields of its file status.
func threadOf(pid int) (dir string, field map[string]string) {
	dir = "/proc/" + strconv.Itoa(pid)
	if field = procStatus(dir + "/status"); field["VmSize"] != "" || number(field["Threads"]) < 2 {
		return dir, field
	}
	tasks, _ := os.ReadDir(dir + "/task")
	for _, t := range tasks {
		task := dir + "/task/" + t.Name()
		if f := procStatus(task + "/status"); f["VmSize"] != "" {
			return task, f
		}
	}
	return dir, field
}
