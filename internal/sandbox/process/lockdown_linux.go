package process

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// filtersOfWorker is the number of seccomp filters that a worker has: of the keeper, of the zygote and its own.
const filtersOfWorker = 3

// descriptorsOfWorker are stdin, stdout, stderr and the channel.
const descriptorsOfWorker = 4

// checkLockdown tests from outside that a process with this id, or with that of this process if it is 0, was
// locked down, without the layers in off. Code of preloaded modules has run in its interpreter, and could
// have skipped steps.
func checkLockdown(pid, id int, limits rlimits, off []string) error {
	status := procStatus("/proc/" + strconv.Itoa(pid) + "/status")
	if status["CapBnd"] == "" {
		return errors.New("it has ended")
	}
	var wrong []error
	want := func(layer, name, value string) {
		if !contains(off, layer) && status[name] != value {
			wrong = append(wrong, fmt.Errorf("%s is %q instead of %q", name, status[name], value))
		}
	}
	for _, set := range []string{"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"} {
		want("capabilities", set, strings.Repeat("0", 16))
	}
	want("no_new_privs", "NoNewPrivs", "1")
	want("seccomp", "Seccomp", "2")
	if own, ok := procStatus("/proc/self/status")["Seccomp_filters"]; ok { // since Linux 5.9
		want("seccomp", "Seccomp_filters", strconv.FormatInt(max(0, number(own))+filtersOfWorker, 10))
	}
	uid := strconv.Itoa(id)
	if id == 0 {
		uid = strconv.Itoa(os.Geteuid())
	}
	want("", "Uid", strings.Join([]string{uid, uid, uid, uid}, "\t"))
	if !contains(off, "rlimits") {
		wrong = append(wrong, checkLimits(pid, limits))
	}
	if open, err := os.ReadDir("/proc/" + strconv.Itoa(pid) + "/fd"); err == nil && len(open) != descriptorsOfWorker {
		wrong = append(wrong, fmt.Errorf("it has %d descriptors instead of %d", len(open), descriptorsOfWorker))
	}
	return errors.Join(wrong...)
}

// checkLimits tests that the hard limits of a process are at most those of l.
func checkLimits(pid int, l rlimits) error {
	var wrong []error
	for resource, most := range map[int]int64{
		unix.RLIMIT_CORE: l.Core, unix.RLIMIT_NOFILE: l.NoFile, unix.RLIMIT_FSIZE: l.FSize, unix.RLIMIT_CPU: l.CPU,
		unix.RLIMIT_MSGQUEUE: l.MQ, unix.RLIMIT_MEMLOCK: l.Lock,
		unix.RLIMIT_SIGPENDING: l.Signal, unix.RLIMIT_NPROC: l.NProc, unix.RLIMIT_DATA: l.Data[1], unix.RLIMIT_AS: l.AS,
	} {
		var got unix.Rlimit
		if err := unix.Prlimit(pid, resource, nil, &got); err != nil || got.Max > uint64(most) {
			wrong = append(wrong, fmt.Errorf("resource limit %d is %d instead of %d: %v", resource, got.Max, most, err))
		}
	}
	return errors.Join(wrong...)
}

// leftBy returns why a zygote cannot fork workers of several tenants after the import of a module, or "".
// It looks from outside, as far as this process may.
func leftBy(zygote int) string {
	if tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", zygote)); err == nil && len(tasks) > 1 {
		return "it starts a thread, which a fork would not have"
	}
	maps, _ := os.ReadFile(fmt.Sprintf("/proc/%d/maps", zygote))
	for line := range strings.Lines(string(maps)) {
		if _, mode, _ := strings.Cut(line, " "); len(mode) > 4 && mode[1] == 'w' && mode[3] == 's' {
			return "it maps memory that all workers would share"
		}
	}
	return ""
}
