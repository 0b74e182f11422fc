package process

import "syscall"

// Other backends use the following of this package.

// TenantUID returns the id of a tenant in the namespaces of NewNamespaces; uid is that of its
// spec. It fails for a uid that this process cannot change to.
func TenantUID(uid int) (int, error) { return hostIDs().tenant(uid) }

// NobodyUID returns the id in those namespaces of a process that handles no file of a tenant.
func NobodyUID() int { return hostIDs().zygote }

// NewNamespaces returns the attributes of a process that is root and pid 1 in namespaces of its own.
func NewNamespaces() *syscall.SysProcAttr { return keeperAttr(nil, hostIDs()) }

// WorkerFilters returns the seccomp programs of a zygote's init message: before and after the
// lockdown of a worker.
func WorkerFilters() (first, second []byte) {
	return filter(bindingRules()), filter(lockdownRules(workerRules()))
}
