package process

import (
	"encoding/binary"
	"maps"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// machine runs filters the way the kernel does, on our copy of seccomp_data.
type machine []*bpf.VM

// lockedDown returns the filters of a locked-down worker, in the order of their loading.
func lockedDown(t *testing.T, worker map[int]rule) machine {
	t.Helper()
	return machine{load32(t, filter(keeperRules())), load32(t, filter(bindingRules())),
		load32(t, filter(lockdownRules(bindingRules(), worker)))}
}

func load32(t *testing.T, program []byte) *bpf.VM {
	t.Helper()
	var raw []bpf.RawInstruction
	for ; len(program) > 0; program = program[8:] {
		raw = append(raw, bpf.RawInstruction{
			Op: binary.LittleEndian.Uint16(program), Jt: program[2], Jf: program[3], K: binary.LittleEndian.Uint32(program[4:]),
		})
	}
	instructions, ok := bpf.Disassemble(raw)
	if !ok {
		t.Fatal("the filter has an instruction that is not classic BPF")
	}
	vm, err := bpf.NewVM(instructions)
	if err != nil {
		t.Fatal(err)
	}
	return vm
}

func (m machine) run(t *testing.T, arch uint32, nr uint32, args ...uint64) verdict {
	t.Helper()
	// the VM reads big endian words where the kernel reads native ones
	data := make([]byte, 64)
	word := func(at int, v uint32) { binary.BigEndian.PutUint32(data[at:], v) }
	word(offNumber, nr)
	word(offArch, arch)
	for i, a := range args {
		word(offArgs+8*i, uint32(a))
		word(offArgs+8*i+4, uint32(a>>32))
	}
	result := allow
	for _, vm := range slices.Backward(m) {
		v, err := vm.Run(data)
		if err != nil {
			t.Fatal(err)
		}
		if action(verdict(v)) < action(result) { // the strictest, and of equal ones that of the newest filter
			result = verdict(v)
		}
	}
	return result
}

// action is what the kernel compares: the lower, the stricter.
func action(v verdict) int32 { return int32(v &^ 0xffff) }

func TestFilterVerdictOfEverySystemCall(t *testing.T) {
	for name, rules := range map[string]map[int]rule{"worker": workerRules(), "killing at unlisted calls": killUnlistedRules()} {
		t.Run(name, func(t *testing.T) { testVerdicts(t, rules) })
	}
}

func testVerdicts(t *testing.T, rules map[int]rule) {
	m := lockedDown(t, rules)
	for nr := range uint32(1024) {
		want := absent
		r, listed := rules[int(nr)]
		if listed {
			if len(r.when) > 0 {
				continue // arguments decide: the next test
			}
			want = r.otherwise
		}
		if got := m.run(t, auditArch, nr); got != want {
			t.Errorf("system call %d: verdict %#x, want %#x", nr, got, want)
		}
	}
	for _, nr := range []uint32{foreignBit, foreignBit | 1, foreignBit | 520, 0xffffffff} {
		if got := m.run(t, auditArch, nr); got != kill {
			t.Errorf("foreign number %#x: verdict %#x, want the process killed", nr, got)
		}
	}
	for _, arch := range []uint32{0, unix.AUDIT_ARCH_I386, unix.AUDIT_ARCH_ARM} {
		if got := m.run(t, arch, unix.SYS_READ); got != kill {
			t.Errorf("architecture %#x: verdict %#x, want the process killed", arch, got)
		}
	}
}

func TestListsAreDisjoint(t *testing.T) {
	seen := map[int]string{}
	for name, list := range map[string][]int{
		"allowed": slices.Collect(maps.Keys(allowed)), "allowedHere": slices.Collect(maps.Keys(allowedHere)),
		"refused": refused, "refusedHere": refusedHere, "fallsBack": fallsBack, "oldPollerCalls": oldPollerCalls,
	} {
		for _, nr := range list {
			if other, ok := seen[nr]; ok {
				t.Errorf("system call %d is in %s and in %s", nr, other, name)
			}
			seen[nr] = name
			if _, ok := checked[nr]; ok && !strings.HasPrefix(name, "allowed") {
				t.Errorf("system call %d is in %s and is checked", nr, name)
			}
		}
	}
}

func TestFilterChecksArguments(t *testing.T) {
	m := lockedDown(t, workerRules())
	for _, c := range []struct {
		name string
		nr   int
		args []uint64
		want verdict
	}{
		{"thread", unix.SYS_CLONE, []uint64{unix.CLONE_VM | unix.CLONE_THREAD | unix.CLONE_FILES}, allow},
		{"thread with descriptors of its own", unix.SYS_CLONE, []uint64{unix.CLONE_VM | unix.CLONE_THREAD}, refuse},
		{"process that shares descriptors", unix.SYS_CLONE, []uint64{unix.CLONE_FILES | uint64(unix.SIGCHLD)}, refuse},
		{"clone with a user namespace", unix.SYS_CLONE, []uint64{unix.CLONE_NEWUSER}, refuse},
		{"clone with a mount namespace among others", unix.SYS_CLONE, []uint64{unix.CLONE_NEWNS | uint64(unix.SIGCHLD)}, refuse},
		{"clone with a time namespace", unix.SYS_CLONE, []uint64{unix.CLONE_NEWTIME}, refuse},
		{"clone3", unix.SYS_CLONE3, nil, absent},
		{"unix socketpair", unix.SYS_SOCKETPAIR, []uint64{unix.AF_UNIX}, allow},
		{"netlink socketpair", unix.SYS_SOCKETPAIR, []uint64{unix.AF_NETLINK}, refuse},
		{"send", unix.SYS_SENDTO, []uint64{3, 0x7000, 10, 0, 0, 0}, allow},
		{"send to an address", unix.SYS_SENDTO, []uint64{3, 0x7000, 10, 0, 0x7fff1000, 16}, refuse},
		{"send to an address whose low half is zero", unix.SYS_SENDTO, []uint64{3, 0x7000, 10, 0, 0x7fff00000000, 16}, refuse},
		{"send out of band", unix.SYS_SENDTO, []uint64{3, 0x7000, 10, unix.MSG_OOB, 0, 0}, refuse},
		{"type of a socket", unix.SYS_GETSOCKOPT, []uint64{3, unix.SOL_SOCKET, unix.SO_TYPE}, allow},
		{"process of the peer", unix.SYS_GETSOCKOPT, []uint64{3, unix.SOL_SOCKET, 77}, refuse},
		{"process of the peer, high bits set", unix.SYS_GETSOCKOPT, []uint64{3, 1<<32 | unix.SOL_SOCKET, 1<<32 | 77}, refuse},
		{"credentials of the peer", unix.SYS_GETSOCKOPT, []uint64{3, unix.SOL_SOCKET, unix.SO_PEERCRED}, refuse},
		{"option of another level", unix.SYS_GETSOCKOPT, []uint64{3, unix.SOL_NETLINK, unix.SO_TYPE}, refuse},
		{"epoll", unix.SYS_EPOLL_CREATE1, nil, absent},
		{"isatty", unix.SYS_IOCTL, []uint64{0, unix.TCGETS}, allow},
		{"typing into the terminal", unix.SYS_IOCTL, []uint64{0, unix.TIOCSTI}, refuse},
		{"typing into the terminal, high bits set", unix.SYS_IOCTL, []uint64{0, 1<<32 | unix.TIOCSTI}, refuse},
		{"an unknown request", unix.SYS_IOCTL, []uint64{0, 0x1234}, notTTY},
		{"reflink", unix.SYS_IOCTL, []uint64{0, unix.FICLONE}, notSup},
		{"record lock", unix.SYS_FCNTL, []uint64{3, unix.F_SETLK}, allow},
		{"lease", unix.SYS_FCNTL, []uint64{3, unix.F_SETLEASE}, refuse},
		{"directory notification", unix.SYS_FCNTL, []uint64{3, unix.F_NOTIFY}, refuse},
		{"larger pipe", unix.SYS_FCNTL, []uint64{3, unix.F_SETPIPE_SZ}, refuse},
		{"thread name", unix.SYS_PRCTL, []uint64{unix.PR_SET_NAME}, allow},
		{"seccomp by prctl", unix.SYS_PRCTL, []uint64{unix.PR_SET_SECCOMP}, refuse},
		{"dumpable", unix.SYS_PRCTL, []uint64{unix.PR_SET_DUMPABLE}, refuse},
		{"own limits", unix.SYS_PRLIMIT64, []uint64{0}, allow},
		{"another's limits", unix.SYS_PRLIMIT64, []uint64{7}, refuse},
		{"file with mode 644", unix.SYS_OPENAT, []uint64{0, 0, unix.O_CREAT, 0o644}, allow},
		{"set-user-id file", unix.SYS_OPENAT, []uint64{0, 0, unix.O_CREAT, 0o4755}, refuse},
		{"chmod", unix.SYS_FCHMODAT, []uint64{0, 0, 0o755}, allow},
		{"chmod to set-group-id", unix.SYS_FCHMODAT, []uint64{0, 0, 0o2755}, refuse},
		{"fchmodat2 to set-user-id", sysFchmodat2, []uint64{0, 0, 0o4755}, refuse},
		{"lock", unix.SYS_FLOCK, []uint64{3, unix.LOCK_EX}, absent},
		{"reading what is cached", unix.SYS_PREADV2, []uint64{3, 0x7000, 1, 0, 0, unix.RWF_NOWAIT}, absent},
		{"leaving a whiteout", unix.SYS_RENAMEAT2, []uint64{0, 0, 0, 0, unix.RENAME_WHITEOUT | unix.RENAME_NOREPLACE}, absent},
		{"returning memory", unix.SYS_MADVISE, []uint64{0, 0, unix.MADV_DONTNEED}, allow},
		{"merging pages", unix.SYS_MADVISE, []uint64{0, 0, unix.MADV_MERGEABLE}, refuse},
		{"preallocation", unix.SYS_FALLOCATE, nil, notSup},
	} {
		if got := m.run(t, auditArch, uint32(c.nr), c.args...); got != c.want {
			t.Errorf("%s: verdict %#x, want %#x", c.name, got, c.want)
		}
	}
}

func TestFilterIsShallow(t *testing.T) {
	for name, program := range map[string][]byte{"binding": filter(bindingRules()),
		"lockdown": filter(lockdownRules(bindingRules(), workerRules()))} {
		n, most := len(program)/8, map[string]int{"binding": 700, "lockdown": 120}[name]
		t.Logf("%s: %d instructions", name, n)
		if n > most {
			t.Errorf("the filter %s has %d instructions, want at most %d", name, n, most)
		}
	}
}
