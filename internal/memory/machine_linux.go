package memory

import (
	"math"
	"os"
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Machine returns the memory that the process can use, in bytes: that of the machine, the limit
// of its cgroup, or two thirds of that of its data (RLIMIT_DATA, RLIMIT_AS) if that is less.
// These limits also count what the runtime has returned to the kernel but could not use again
// for larger objects.
func Machine() int64 {
	most := int64(math.MaxInt64)
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) == nil {
		most = int64(info.Totalram) * int64(info.Unit)
	}
	for _, kind := range []int{unix.RLIMIT_DATA, unix.RLIMIT_AS} {
		var r unix.Rlimit
		if unix.Getrlimit(kind, &r) == nil && r.Cur/3*2 < uint64(most) {
			most = int64(r.Cur / 3 * 2)
		}
	}
	own, _ := os.ReadFile("/proc/self/cgroup")
	for line := range strings.Lines(string(own)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 {
			continue
		}
		root, file := "", ""
		switch parts[1] {
		case "":
			root, file = "/sys/fs/cgroup", "memory.max"
		case "memory":
			root, file = "/sys/fs/cgroup/memory", "memory.limit_in_bytes"
		default:
			continue
		}
		for dir := path.Clean("/" + parts[2]); ; dir = path.Dir(dir) {
			b, _ := os.ReadFile(root + path.Join(dir, file))
			if n, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64); err == nil && n > 0 {
				most = min(most, n)
			}
			if dir == "/" {
				break
			}
		}
	}
	return most
}
