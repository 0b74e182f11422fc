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
	tenants  int // that can have their own uid; 0 for an ordinary user
	uid, gid []syscall.SysProcIDMap
	zygote   int // host uid of zygotes; 0 if they share the daemon's
}

// The ids that a daemon running as root assigns, as far as they exist in its user namespace.
// Each tenant has its own uid, allocated from FirstUID on.
const (
	zygoteUID  = 199_999
	FirstUID   = 200_000
	maxTenants = 65_536
)

func hostIDs() idMaps {
	uid, gid := os.Geteuid(), os.Getegid()
	one := func(host int) []syscall.SysProcIDMap {
		return []syscall.SysProcIDMap{{ContainerID: 0, HostID: host, Size: 1}}
	}
	m := idMaps{uid: one(uid), gid: one(gid)}
	if tenants := TenantUIDs(); tenants > 0 {
		more := syscall.SysProcIDMap{ContainerID: zygoteUID, HostID: zygoteUID, Size: 1 + tenants}
		m.tenants, m.zygote = tenants, zygoteUID
		m.uid, m.gid = append(m.uid, more), append(m.gid, more)
	}
	return m
}

// TenantUIDs returns how many ids from FirstUID on this process can give to tenants. It is 0 if it
// is not root.
func TenantUIDs() int {
	if os.Geteuid() != 0 {
		return 0
	}
	ids := maxTenants
	for _, file := range []string{"/proc/self/uid_map", "/proc/self/gid_map"} {
		_, count := mapped(file, zygoteUID)
		ids = min(ids, count-1)
	}
	return max(0, ids)
}

// FirstHostUID returns the id of FirstUID in the parent user namespace.
func FirstHostUID() int {
	outside, _ := mapped("/proc/self/uid_map", FirstUID)
	return outside
}

// tenant returns the id in the sandbox's user namespace of a tenant with host id uid, or
// with none if uid is 0.
func (m idMaps) tenant(uid int) (int, error) {
	switch {
	case m.tenants > 0 && uid == 0:
		return FirstUID, nil
	case uid >= FirstUID && uid < FirstUID+m.tenants:
		return uid, nil
	case uid == 0 || uid == os.Geteuid():
		return 0, nil
	}
	return 0, fmt.Errorf("sandbox: cannot change to host uid %d", uid)
}

// mapped returns what the user namespace of an id map maps first to, and how many consecutive ids
// from there on it contains.
func mapped(file string, first int) (outside, count int) {
	b, _ := os.ReadFile(file)
	for line := range strings.Lines(string(b)) {
		var inside, size int
		if n, _ := fmt.Sscan(line, &inside, &outside, &size); n == 3 && inside <= first && first < inside+size {
			return outside + first - inside, inside + size - first
		}
	}
	return 0, 0
}
