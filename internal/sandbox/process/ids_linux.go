package process

import (
	"fmt"
	"os"
	"strings"
	"syscall"
)

// idMaps lists the host ids in the sandbox's user namespace. For an ordinary user that
// is its own id, as 0. For root it is 0, one id for zygotes and a range for tenants,
// all with the same number as on the host.
type idMaps struct {
	root     bool
	uid, gid []syscall.SysProcIDMap
	zygote   int // host uid of zygotes; 0 if they share the daemon's
}

// The ids that a daemon running as root assigns. Up to 65,536 tenants have their own
// uid, allocated from FirstUID on.
const (
	zygoteUID = 199_999
	FirstUID  = 200_000
	LastUID   = 265_535
)

func hostIDs() idMaps {
	uid, gid := os.Geteuid(), os.Getegid()
	one := func(host int) []syscall.SysProcIDMap {
		return []syscall.SysProcIDMap{{ContainerID: 0, HostID: host, Size: 1}}
	}
	m := idMaps{uid: one(uid), gid: one(gid)}
	if uid == 0 && mapped("/proc/self/uid_map", zygoteUID, LastUID) && mapped("/proc/self/gid_map", zygoteUID, LastUID) {
		more := syscall.SysProcIDMap{ContainerID: zygoteUID, HostID: zygoteUID, Size: LastUID - zygoteUID + 1}
		m.root, m.zygote = true, zygoteUID
		m.uid, m.gid = append(m.uid, more), append(m.gid, more)
	}
	return m
}

// tenant returns the id in the sandbox's user namespace of a tenant with host id uid, or
// with none if uid is 0.
func (m idMaps) tenant(uid int) (int, error) {
	switch {
	case m.root && uid == 0:
		return FirstUID, nil
	case m.root && uid >= FirstUID && uid <= LastUID:
		return uid, nil
	case uid == 0 || uid == os.Geteuid():
		return 0, nil
	}
	return 0, fmt.Errorf("sandbox: cannot change to host uid %d", uid)
}

// mapped reports whether all ids from first to last exist in the user
// namespace that the map file describes.
func mapped(file string, first, last int) bool {
	b, err := os.ReadFile(file)
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(b)) {
		var inside, outside, size int
		if n, _ := fmt.Sscan(line, &inside, &outside, &size); n == 3 && inside <= first && last < inside+size {
			return true
		}
	}
	return false
}
