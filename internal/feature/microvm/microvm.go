// Package microvm is the sandbox backend that runs each sandbox in a virtual machine of its
// own, by QEMU and KVM. The boundary is the processor's; the kernel of the guest, which code
// may control completely, is not part of it.
//
// There are two processes for each sandbox on the host. QEMU runs the guest, and virtiofsd
// shares the directories of the spec's mounts with it. Both are started by a launcher, in
// namespaces and with a root of their own: QEMU sees no file of a tenant, virtiofsd only those
// directories. The guest has no network device.
//
// In the guest runs guest.py, and below it the same zygote and worker as in the process
// backend, with the same lockdown. At its start the backend boots one guest until its zygote
// is warm, and takes a snapshot; each sandbox is a restored copy, with a new random state
// and the current time. The snapshot and the initramfs are sealed memory, and no socket has a name,
// so that nothing is left of a daemon that is killed; its processes are killed with it.
//
// A Backend is safe for concurrent use. It has no queue, and keeps no guests in advance.
package microvm
