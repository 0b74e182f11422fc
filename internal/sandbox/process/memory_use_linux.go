package process

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// memoryUse describes the memory of one process, in bytes.
type memoryUse struct {
	private  int64 // in use and of no file, with page tables
	resident int64 // the same with shared memory and files in memory, such as the zygote's snapshot
	data     int64 // what RLIMIT_DATA counts: writable and private, in use or not
	size     int64 // what RLIMIT_AS counts
}

// memoryOf returns the memory of a process; all is zero if it is gone.
func memoryOf(pid int) memoryUse {
	field := procStatus(fmt.Sprintf("/proc/%d/status", pid))
	private := kilobytes(field["RssAnon"]) + kilobytes(field["VmSwap"]) + kilobytes(field["VmPTE"])
	return memoryUse{
		private:  private,
		resident: private + kilobytes(field["RssShmem"]),
		data:     kilobytes(field["VmData"]),
		size:     kilobytes(field["VmSize"]),
	}
}

// kilobytes parses a value of /proc: "12 kB". It returns 0 for anything else.
func kilobytes(s string) int64 { return max(0, number(strings.TrimSuffix(s, " kB"))) << 10 }

// memoryOfAll returns the memory of a worker with all its processes, the worker first, and its
// scratch files. The cheap sum counts shared pages in each process and mapped scratch files
// twice; the exact one is computed only if the cheap one comes near limit, and only until it
// exceeds limit. It contains a share of what the worker has inherited of its zygote, which does
// not count.
func memoryOfAll(pids []int, limit, inherited int64) int64 {
	files, devices := scratchFiles(pids[0])
	cheap := files + sum(pids, func(pid int) int64 { return memoryOf(pid).resident })
	if cheap <= limit/4*3 {
		return cheap
	}
	used := files
	for _, pid := range pids {
		if used += exactMemory(pid, devices); used > limit {
			break
		}
	}
	return min(used, cheap-inherited)
}

func sum(pids []int, of func(int) int64) int64 {
	var total int64
	for _, pid := range pids {
		total += of(pid)
	}
	return total
}

// scratchFiles returns the memory of the files that a worker has written to its mounts of
// tmpfs, and the devices of those that are not empty, as in /proc/PID/smaps.
func scratchFiles(pid int) (used int64, devices []string) {
	for _, name := range []string{"/tmp", "/dev/shm"} {
		dir := fmt.Sprintf("/proc/%d/root%s", pid, name)
		var fs unix.Statfs_t
		var st unix.Stat_t
		if unix.Statfs(dir, &fs) != nil || fs.Type != unix.TMPFS_MAGIC || fs.Bfree == fs.Blocks || unix.Stat(dir, &st) != nil {
			continue
		}
		used += int64(fs.Blocks-fs.Bfree) * int64(fs.Bsize)
		devices = append(devices, fmt.Sprintf("%02x:%02x", unix.Major(uint64(st.Dev)), unix.Minor(uint64(st.Dev))))
	}
	return used, devices
}

// exactMemory is like memoryOf(pid).resident, but divides pages by the number of processes that
// share them and omits pages of files on devices.
func exactMemory(pid int, devices []string) int64 {
	used := kilobytes(procStatus(fmt.Sprintf("/proc/%d/status", pid))["VmPTE"])
	field := procStatus(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	for _, name := range []string{"Pss_Anon", "Pss_Shmem", "SwapPss"} {
		used += kilobytes(field[name])
	}
	if len(devices) > 0 {
		used -= mappedFrom(pid, devices)
	}
	return used
}

// mostMappings bounds the description of the mappings of a process that is read. The rest is not
// omitted.
const mostMappings = 16 << 20

// mappedFrom returns the pages of files on devices that a process has mapped and not copied.
func mappedFrom(pid int, devices []string) int64 {
	f, err := os.Open("/proc/" + strconv.Itoa(pid) + "/smaps")
	if err != nil {
		return 0
	}
	defer f.Close()
	var total, pss int64
	counts := false
	for s := bufio.NewScanner(io.LimitReader(f, mostMappings)); s.Scan(); {
		name, value, _ := strings.Cut(s.Text(), ":")
		switch {
		case strings.Contains(name, " "): // the first line of a mapping: addresses, permissions, offset, device
			field := strings.Fields(s.Text())
			counts = len(field) > 3 && contains(devices, field[3])
		case name == "Pss" && counts:
			pss = kilobytes(strings.TrimSpace(value))
		case name == "Anonymous" && counts:
			total += max(0, pss-kilobytes(strings.TrimSpace(value)))
		}
	}
	return total
}

// descendants returns pid and all its descendants. Orphans are included, since a
// worker is pid 1 of its namespace.
func descendants(pid int, found []int) []int {
	found = append(found, pid)
	tasks, _ := os.ReadDir("/proc/" + strconv.Itoa(pid) + "/task")
	for _, t := range tasks {
		b, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/task/" + t.Name() + "/children")
		for child := range strings.FieldsSeq(string(b)) {
			if n, err := strconv.Atoi(child); err == nil {
				found = descendants(n, found)
			}
		}
	}
	return found
}

// hostPID returns the worker's process id in our pid namespace, or 0 if it is
// gone. Use it only for reading; operations that must not hit a reused pid use the
// pidfd.
func (w *process) hostPID() int {
	return pidOf(w.fd())
}

// pidOf returns the process id that a pidfd refers to, or 0 if the process is gone.
func pidOf(pidfd int) int {
	b, err := os.ReadFile("/proc/self/fdinfo/" + strconv.Itoa(pidfd))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(b)) {
		if pid, ok := strings.CutPrefix(line, "Pid:"); ok {
			n, _ := strconv.Atoi(strings.TrimSpace(pid))
			return max(0, n)
		}
	}
	return 0
}
