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

	pid, parent string
	dir         string // in /proc, of a thread that has not ended
}

// memoryOf returns the memory of a process; all is zero if it is gone.
func memoryOf(pid int) memoryUse {
	dir, field := threadOf(pid)
	private := kilobytes(field["RssAnon"]) + kilobytes(field["VmSwap"]) + kilobytes(field["VmPTE"])
	return memoryUse{
		private:  private,
		resident: private + kilobytes(field["RssShmem"]),
		data:     kilobytes(field["VmData"]),
		size:     kilobytes(field["VmSize"]),
		pid:      strconv.Itoa(pid), parent: field["PPid"], dir: dir,
	}
}

// kilobytes parses a value of /proc: "12 kB". It returns 0 for anything else.
func kilobytes(s string) int64 { return max(0, number(strings.TrimSuffix(s, " kB"))) << 10 }

// memorySum is the memory of all processes of a worker.
type memorySum struct {
	processes int64 // with scratch files
	kernel    kernelUse
}

func (s memorySum) total() int64 { return s.processes + s.kernel.total() }

// memoryOfAll returns the memory of a worker with all its processes, the worker first, its
// scratch files and the memory of the kernel for them. The cheap sum counts shared pages in each process and mapped scratch files
// twice; unless exact, the exact one is computed only if the cheap one comes near the limit, and only until it
// exceeds the limit. It contains a share of the memory that the worker has inherited from its zygote, which does
// not count.
func memoryOfAll(uses []memoryUse, inherited int64, kernel *kernelMemory, exact bool) memorySum {
	limit := kernel.limit
	var cheap int64
	for _, u := range uses {
		cheap += u.resident
	}
	files, devices := scratchFiles(uses[0].dir)
	cheap += files
	if !exact && cheap <= limit/4*3 {
		return memorySum{cheap, kernel.of(uses, limit-cheap)}
	}
	used := files
	for _, u := range uses {
		if u.size == 0 {
			continue
		}
		if used += exactMemory(u.dir, devices); used > limit {
			break
		}
	}
	used = min(used, cheap-inherited)
	return memorySum{used, kernel.of(uses, limit-used)}
}

// memoryOfEach returns the memory of each of some processes.
func memoryOfEach(pids []int) []memoryUse {
	uses := make([]memoryUse, len(pids))
	for i, pid := range pids {
		uses[i] = memoryOf(pid)
	}
	return uses
}

// scratchFiles returns the memory of the files that a worker, of a directory in /proc, has written to its mounts of
// tmpfs, and the devices of those that are not empty, as in /proc/PID/smaps.
func scratchFiles(proc string) (used int64, devices []string) {
	for _, name := range []string{"/tmp", "/dev/shm"} {
		dir := proc + "/root" + name
		var fs unix.Statfs_t
		var st unix.Stat_t
		if unix.Statfs(dir, &fs) != nil || fs.Type != unix.TMPFS_MAGIC || fs.Ffree+1 >= fs.Files || unix.Stat(dir, &st) != nil {
			continue
		}
		used += int64(fs.Blocks-fs.Bfree)*int64(fs.Bsize) + int64(fs.Files-fs.Ffree)*scratchBytes
		devices = append(devices, fmt.Sprintf("%02x:%02x", unix.Major(uint64(st.Dev)), unix.Minor(uint64(st.Dev))))
	}
	return used, devices
}

// exactMemory is like memoryOf of the process of a directory in /proc, but divides pages by the number of processes that
// share them and omits pages of files on devices.
func exactMemory(dir string, devices []string) int64 {
	used := kilobytes(procStatus(dir + "/status")["VmPTE"])
	field := procStatus(dir + "/smaps_rollup")
	for _, name := range []string{"Pss_Anon", "Pss_Shmem", "SwapPss"} {
		used += kilobytes(field[name])
	}
	if len(devices) > 0 {
		used -= mappedFrom(dir, devices)
	}
	return used
}

// mostMappings bounds the description of the mappings of a process that is read. The rest is not
// omitted.
const mostMappings = 16 << 20

// mappedFrom returns the pages of files on devices that a process has mapped and not copied.
func mappedFrom(dir string, devices []string) int64 {
	f, err := os.Open(dir + "/smaps")
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

// oomScoreAdj makes the kernel kill a worker before any process of the host when
// memory runs out.
const oomScoreAdj = 900

// raiseOOMScore raises the OOM score of a process before it forks; its children
// inherit it.
func raiseOOMScore(pidfd int) error {
	pid := pidOf(pidfd)
	if pid == 0 {
		return nil // begin reports that it has ended
	}
	name := "/proc/" + strconv.Itoa(pid) + "/oom_score_adj"
	b, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	if now, err := strconv.Atoi(strings.TrimSpace(string(b))); err == nil && now >= oomScoreAdj {
		return nil
	}
	return os.WriteFile(name, []byte(strconv.Itoa(oomScoreAdj)), 0)
}
