package process

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
)

// idMaps lists the host ids in the sandbox's user namespace. For an ordinary user that
// is its own id, as 0. For root it is 0, one id for zygotes and a range for tenants,
// all with the same number as on the host.
type idMaps struct {
	tenants  int // that can have their own uid; 0 for an ordinary user
	uid, gid []syscall.SysProcIDMap
	zygote   int // host uid of zygotes; 0 if they share the daemon's
	outside  int // FirstUID in the parent user namespace
}

// The ids that a daemon running as root assigns, as far as they exist in its user namespace.
// Each tenant has its own uid, allocated from FirstUID on.
const (
	zygoteUID  = 199_999
	FirstUID   = 200_000
	maxTenants = 65_536
)

// hostIDs returns the ids of this process, which never change: what was read once is kept.
func hostIDs() (idMaps, error) {
	hostMaps.Lock()
	defer hostMaps.Unlock()
	if hostMaps.ids.uid == nil {
		ids, err := readIDs()
		if err != nil {
			return idMaps{}, err
		}
		hostMaps.ids = ids
	}
	return hostMaps.ids, nil
}

var hostMaps struct {
	sync.Mutex
	ids idMaps
}

func readIDs() (idMaps, error) {
	uid, gid := os.Geteuid(), os.Getegid()
	one := func(host int) []syscall.SysProcIDMap {
		return []syscall.SysProcIDMap{{ContainerID: 0, HostID: host, Size: 1}}
	}
	m := idMaps{uid: one(uid), gid: one(gid)}
	if uid != 0 {
		return m, nil
	}
	tenants := maxTenants
	for _, file := range []string{"/proc/self/uid_map", "/proc/self/gid_map"} {
		_, count, err := mapped(file, zygoteUID)
		if err != nil {
			return idMaps{}, err
		}
		tenants = min(tenants, count-1)
	}
	if tenants <= 0 {
		return m, nil
	}
	outside, _, err := mapped("/proc/self/uid_map", FirstUID)
	if err != nil {
		return idMaps{}, err
	}
	more := syscall.SysProcIDMap{ContainerID: zygoteUID, HostID: zygoteUID, Size: 1 + tenants}
	m.tenants, m.zygote, m.outside = tenants, zygoteUID, outside
	m.uid, m.gid = append(m.uid, more), append(m.gid, more)
	return m, nil
}

// TenantUIDs returns how many ids from FirstUID on this process can give to tenants. It is 0 if it
// is not root. After it has succeeded once, it and all functions of these ids succeed.
func TenantUIDs() (int, error) {
	ids, err := hostIDs()
	return ids.tenants, err
}

// FirstHostUID returns the id of FirstUID in the parent user namespace.
func FirstHostUID() (int, error) {
	ids, err := hostIDs()
	return ids.outside, err
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
// from there on it contains; both are 0 if it does not contain first.
func mapped(file string, first int) (outside, count int, err error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return 0, 0, fmt.Errorf("reading which ids this process has: %w", err)
	}
	for line := range strings.Lines(string(b)) {
		var inside, size int
		if n, _ := fmt.Sscan(line, &inside, &outside, &size); n == 3 && inside <= first && first < inside+size {
			return outside + first - inside, inside + size - first, nil
		}
	}
	return 0, 0, nil
}
