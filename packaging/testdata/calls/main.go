// Calls makes system calls that a container does not need, with arguments that have no effect, and
// prints the error of each.
package main

import (
	"fmt"

	"golang.org/x/sys/unix"
)

const none = ^uintptr(0)

var calls = map[string][]uintptr{
	"bpf":               {unix.SYS_BPF, none, 0, 0},
	"perf_event_open":   {unix.SYS_PERF_EVENT_OPEN, 0, 0, none},
	"userfaultfd":       {unix.SYS_USERFAULTFD, none},
	"io_uring_setup":    {unix.SYS_IO_URING_SETUP, 0, 0},
	"keyctl":            {unix.SYS_KEYCTL, none},
	"add_key":           {unix.SYS_ADD_KEY, 0, 0, 0},
	"request_key":       {unix.SYS_REQUEST_KEY, 0, 0, 0},
	"ptrace":            {unix.SYS_PTRACE, none, none},
	"process_vm_readv":  {unix.SYS_PROCESS_VM_READV, none, 0, 0},
	"pidfd_getfd":       {unix.SYS_PIDFD_GETFD, none, 0},
	"kexec_load":        {unix.SYS_KEXEC_LOAD, 0, none, 0},
	"init_module":       {unix.SYS_INIT_MODULE, 0, 0, 0},
	"finit_module":      {unix.SYS_FINIT_MODULE, none, 0, 0},
	"delete_module":     {unix.SYS_DELETE_MODULE, 0, 0},
	"open_by_handle_at": {unix.SYS_OPEN_BY_HANDLE_AT, none, 0, 0},
	"name_to_handle_at": {unix.SYS_NAME_TO_HANDLE_AT, none, 0, 0},
	"fanotify_init":     {unix.SYS_FANOTIFY_INIT, none, 0},
	"swapon":            {unix.SYS_SWAPON, 0, 0},
	"acct":              {unix.SYS_ACCT, 1},
	"personality":       {unix.SYS_PERSONALITY, 0xffffffff},
	"settimeofday":      {unix.SYS_SETTIMEOFDAY, 1, 1},
	"mknodat":           {unix.SYS_MKNODAT, none, 0, 0},
	"chroot":            {unix.SYS_CHROOT, 0},
	"fsopen":            {unix.SYS_FSOPEN, 0, 0},
	"setresuid":         {unix.SYS_SETRESUID, none, none, none},
	"shmget":            {unix.SYS_SHMGET, 0, 0, 0},
	"memfd_create":      {unix.SYS_MEMFD_CREATE, 0, 0},
	"clone3":            {unix.SYS_CLONE3, 0, 0},
	"socket of packets": {unix.SYS_SOCKET, unix.AF_PACKET, unix.SOCK_RAW, 0},
	"socket of vsock":   {unix.SYS_SOCKET, unix.AF_VSOCK, unix.SOCK_STREAM, 0},
	"socket of alg":     {unix.SYS_SOCKET, unix.AF_ALG, unix.SOCK_SEQPACKET, 0},
}

func main() {
	for name, c := range calls {
		var args [4]uintptr
		copy(args[:], c)
		_, _, errno := unix.RawSyscall(args[0], args[1], args[2], args[3])
		fmt.Printf("%s: %s\n", name, unix.ErrnoName(errno))
	}
}
