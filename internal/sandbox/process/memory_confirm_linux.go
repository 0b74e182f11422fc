package process

import (
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// A child has the memory of its parent between vfork and exec, so that a measurement counts it
// twice; processes that start or end during one can also raise the sum. Nothing is killed before a second
// measurement has confirmed the first.

const (
	kcmpVM = 1 // of linux/kcmp.h

	vforkTime    = 2 * time.Millisecond // in which nearly every child comes to exec
	mostUnproved = 20                   // measurements above the limit in a row that a second one did not confirm
)

// confirm measures a worker again whose memory seemed to exceed limit: sum with the processes pids. It omits
// memory that processes share.
func (m *memoryWatch) confirm(w *process, pids []int, sum memorySum, limit int64) memorySum {
	m.kernel.next = time.Time{} // mappings may have been counted twice too
	if !w.b.cfg.withoutKcmp {
		if uses, ok := distinctMemory(descendants(pids[0], nil)); ok {
			return memoryOfAll(uses, w.inherited.resident, &m.kernel, true)
		}
	}
	// The host refuses kcmp, as containers without CAP_SYS_PTRACE do. New children are not counted,
	// unless code starts them so quickly that they may pass the memory on.
	if m.unproved++; m.unproved > mostUnproved {
		return sum
	}
	for wait := vforkTime; wait <= 4*vforkTime; wait *= 2 {
		time.Sleep(wait)
		if sum = memoryOfAll(memoryOfEach(pids), w.inherited.resident, &m.kernel, true); sum.total() <= limit {
			break
		}
	}
	return sum
}

// distinctMemory is like memoryOfEach, but a process has no memory if its parent has the same. It fails
// where the host refuses to compare processes.
func distinctMemory(pids []int) (uses []memoryUse, ok bool) {
	threads := map[string]int{} // that have memory, of processes
	for _, pid := range pids {
		u := memoryOf(pid)
		thread, _ := strconv.Atoi(filepath.Base(u.dir))
		shared := false
		if parent := threads[u.parent]; parent > 0 && u.size > 0 {
			var err error
			if shared, err = sameMemory(parent, thread); err == unix.EPERM || err == unix.EACCES || err == unix.ENOSYS {
				return nil, false
			}
		}
		if shared {
			u = memoryUse{pid: u.pid, parent: u.parent, dir: u.dir}
		} else {
			u = memoryOf(pid) // the first one may have been that of its parent
		}
		if threads[u.pid] = thread; u.size == 0 && !shared {
			threads[u.pid] = 0
		}
		uses = append(uses, u)
	}
	return uses, true
}

// sameMemory reports whether two threads have one address space.
func sameMemory(a, b int) (bool, error) {
	order, _, errno := unix.Syscall6(unix.SYS_KCMP, uintptr(a), uintptr(b), kcmpVM, 0, 0, 0)
	if errno != 0 {
		return false, errno
	}
	return order == 0, nil
}
