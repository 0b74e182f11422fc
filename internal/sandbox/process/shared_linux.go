package process

import (
	"syscall"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
)

// Other backends use the following of this package.

// TenantUID returns the id of a tenant in the namespaces of NewNamespaces; uid is that of its
// spec. It fails for a uid that this process cannot change to.
func TenantUID(uid int) (int, error) {
	ids, err := hostIDs()
	if err != nil {
		return 0, err
	}
	return ids.tenant(uid)
}

// NobodyUID returns the id in those namespaces of a process that handles no file of a tenant.
func NobodyUID() (int, error) {
	ids, err := hostIDs()
	return ids.zygote, err
}

// NewNamespaces returns the attributes of a process that is root and pid 1 in namespaces of its own.
func NewNamespaces() (*syscall.SysProcAttr, error) {
	ids, err := hostIDs()
	if err != nil {
		return nil, err
	}
	return keeperAttr(nil, ids), nil
}

// ZygoteInit is the first message to a zygote, and WorkerHeader the message that binds a worker.
type (
	ZygoteInit   = zygoteInit
	WorkerHeader = header
)

// NewZygoteInit returns the message for a zygote whose workers have the uids of TenantUID, with all
// layers of isolation; memory is the limit that workers have by default.
func NewZygoteInit(memory int64) (ZygoteInit, error) {
	uid, err := NobodyUID()
	return ZygoteInit{
		Disabled: []string{}, Unmount: []string{}, Preload: []string{}, UID: uid, TmpBytes: tmpBytes(memory),
		FilterFirst: encode(filter(bindingRules())), FilterSecond: encode(filter(lockdownRules(bindingRules(), workerRules()))),
	}, err
}

// Programs returns what code may execute, as paths inside.
func Programs(libraries map[string]string) []string { return programs(libraries) }

// NewWorkerHeader returns the message for a worker with limits that may execute programs. The sizes of
// the zygote must be added to its limits on address space and private memory.
func NewWorkerHeader(l sandbox.Limits, programs []string) WorkerHeader {
	return WorkerHeader{
		TmpBytes: tmpBytes(l.MemoryBytes), Programs: programs, Cwd: "/workspace",
		RLimits: rlimits{Core: noCore, NoFile: int64(l.OpenFiles), FSize: l.FileBytes, CPU: max(1, int64(l.CPU/time.Second)),
			Signal: queuedSignals, NProc: int64(l.Processes),
			Data: [2]int64{allowance(l.MemoryBytes, l.MemoryBytes), reserveFactor * l.MemoryBytes},
			AS:   reserveFactor*l.MemoryBytes + reservable},
	}
}

// Mount adds a directory to h. Its descriptor is sent with the message.
func (h *header) Mount(target string) { h.Mounts = append(h.Mounts, headerMount{target}) }

// Tail keeps the last bytes written to it.
type Tail = tail
