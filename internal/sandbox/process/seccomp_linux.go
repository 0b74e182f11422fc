package process

import (
	"encoding/binary"
	"slices"

	"golang.org/x/sys/unix"
)

// A system call is in one of four classes: allowed, in some cases depending on its
// arguments; known and dangerous, which fails with EPERM so that Python raises
// PermissionError; unlisted, which fails with ENOSYS so that libc falls back to an
// older call; and of a foreign ABI, which kills the process.
//
// The lists were derived from the calls of CPython's own tests and of real programs;
// docs/seccomp.md describes how to repeat this. allowed names the code that needs a call.

// verdict is the return value of a filter for one system call.
type verdict uint32

const (
	allow  verdict = unix.SECCOMP_RET_ALLOW
	kill   verdict = unix.SECCOMP_RET_KILL_PROCESS
	refuse verdict = unix.SECCOMP_RET_ERRNO | verdict(unix.EPERM)
	absent verdict = unix.SECCOMP_RET_ERRNO | verdict(unix.ENOSYS)
	notSup verdict = unix.SECCOMP_RET_ERRNO | verdict(unix.EOPNOTSUPP)
	notTTY verdict = unix.SECCOMP_RET_ERRNO | verdict(unix.ENOTTY)
)

// rule decides one system call: the verdict of the first condition that holds, else
// otherwise.
type rule struct {
	when      []condition
	otherwise verdict
}

// condition holds if the low 32 bits of argument arg, masked, equal value; with
// high set, the high 32 bits must also be zero.
type condition struct {
	arg   int
	mask  uint32 // 0 means all bits
	value uint32
	not   bool // holds if they differ
	then  verdict
}

const namespaceFlags = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC |
	unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWTIME

const threadTable = unix.CLONE_THREAD | unix.CLONE_FILES

// setID are the set-user-id and set-group-id bits of a file mode.
const setID = 0o6000

// noSetID allows a call whose argument arg is a mode without setID bits.
func noSetID(arg int) rule {
	return rule{when: []condition{{arg: arg, mask: setID, value: 0, then: allow}}, otherwise: refuse}
}

// oneOf allows a call whose argument arg is one of values.
func oneOf(arg int, otherwise verdict, values ...uint32) rule {
	r := rule{otherwise: otherwise}
	for _, v := range values {
		r.when = append(r.when, condition{arg: arg, value: v, then: allow})
	}
	return r
}

// noneOf allows a call whose argument arg is none of values.
func noneOf(arg int, values ...uint32) rule {
	r := rule{otherwise: allow}
	for _, v := range values {
		r.when = append(r.when, condition{arg: arg, value: v, then: refuse})
	}
	return r
}

// workerRules is the filter of a locked-down worker, by system call number.
func workerRules() map[int]rule {
	rules := map[int]rule{}
	for nr := range allowed {
		rules[nr] = rule{otherwise: allow}
	}
	for nr := range allowedHere {
		rules[nr] = rule{otherwise: allow}
	}
	for _, nr := range refused {
		rules[nr] = rule{otherwise: refuse}
	}
	for _, nr := range refusedHere {
		rules[nr] = rule{otherwise: refuse}
	}
	for _, nr := range slices.Concat(fallsBack, oldPollerCalls) {
		rules[nr] = rule{otherwise: absent}
	}
	for nr, r := range checked {
		rules[nr] = r
	}
	for nr, r := range checkedHere {
		rules[nr] = r
	}
	return rules
}

// killUnlistedRules is like workerRules, but kills the process at an unlisted call.
func killUnlistedRules() map[int]rule {
	rules := workerRules()
	for nr := range numbersEnd {
		if _, listed := rules[nr]; !listed {
			rules[nr] = rule{otherwise: kill}
		}
	}
	return rules
}

// numbersEnd is above every system call number.
const numbersEnd = 1024

// bindingRules is the filter of the zygote and of unbound workers: that of a
// locked-down worker plus the calls for binding and lockdown.
func bindingRules() map[int]rule {
	rules := workerRules()
	for _, nr := range []int{
		unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_UNSHARE, unix.SYS_SETNS, unix.SYS_OPENAT2, unix.SYS_MOVE_MOUNT,
		unix.SYS_PRCTL, unix.SYS_CAPSET, unix.SYS_SETRESUID, unix.SYS_SETRESGID, unix.SYS_SETGROUPS,
		unix.SYS_LANDLOCK_CREATE_RULESET, unix.SYS_LANDLOCK_ADD_RULE, unix.SYS_LANDLOCK_RESTRICT_SELF,
		unix.SYS_SECCOMP, unix.SYS_RECVMSG, unix.SYS_SENDMSG, unix.SYS_PRLIMIT64, unix.SYS_PIDFD_OPEN, unix.SYS_CLOSE_RANGE,
	} {
		rules[nr] = rule{otherwise: allow}
	}
	return rules
}

// lockdownRules is the filter that a locked-down worker loads in addition to that of
// binding. The kernel applies the stricter verdict of the two, so together they
// enforce worker. A short filter matters, since each worker has to load it.
func lockdownRules(binding, worker map[int]rule) map[int]rule {
	rules := map[int]rule{}
	for nr := range numbersEnd {
		r := ruleFor(worker, nr)
		if same := ruleFor(binding, nr); r.otherwise == same.otherwise && slices.Equal(r.when, same.when) {
			r = rule{otherwise: allow}
		}
		rules[nr] = r
	}
	return rules
}

func ruleFor(rules map[int]rule, nr int) rule {
	if r, listed := rules[nr]; listed {
		return r
	}
	return rule{otherwise: absent}
}

// keeperRules is the filter of the keeper after setup: the calls of zygotes, which
// inherit it, plus those for starting zygotes, binding mounts and Go's poller.
func keeperRules() map[int]rule {
	rules := bindingRules()
	for _, nr := range slices.Concat(pollerCalls, []int{unix.SYS_CLONE, unix.SYS_OPEN_TREE, unix.SYS_MOUNT_SETATTR}) {
		rules[nr] = rule{otherwise: allow}
	}
	return rules
}

var pollerCalls = []int{unix.SYS_EPOLL_CREATE1, unix.SYS_EPOLL_CTL, unix.SYS_EPOLL_PWAIT, unix.SYS_EPOLL_PWAIT2}

// fallsBack are calls of libc and libraries that have a fallback for ENOSYS.
var fallsBack = []int{
	unix.SYS_CLONE3, // its flags are in memory, where a filter cannot look
	unix.SYS_FLOCK,  // ENOSYS means "a file system without locks": HDF5 and filelock continue, but fail on EPERM
	// Epoll watches count against the host user's fs.epoll.max_user_watches, and
	// one execution can use them up for every process of that user. The runtime
	// selects poll before the filter is loaded.
	unix.SYS_EPOLL_CREATE1, unix.SYS_EPOLL_CTL, unix.SYS_EPOLL_PWAIT, unix.SYS_EPOLL_PWAIT2,
}

// Requests that asm-generic/ioctls.h defines and x/sys does not; the same on both
// architectures.
const (
	fionread = 0x541b
	fionbio  = 0x5421
	fionclex = 0x5450
	fioclex  = 0x5451
	tcgets2  = 0x802c542a
)

// sysCachestat and sysFchmodat2 have the same number on every architecture.
const (
	sysCachestat = 451
	sysFchmodat2 = 452
)

// checked are the allowed calls whose verdict depends on arguments, on every architecture.
var checked = map[int]rule{
	// All threads of a process, and no other process, have its table of descriptors: the memory watch counts one.
	unix.SYS_CLONE: {when: []condition{
		{arg: 0, mask: namespaceFlags | threadTable, value: threadTable, then: allow},
		{arg: 0, mask: namespaceFlags | threadTable, value: 0, then: allow},
	}, otherwise: refuse},

	unix.SYS_SOCKETPAIR: oneOf(0, refuse, unix.AF_UNIX),
	// Options that describe the socket itself. Others describe the peer, which is
	// the daemon: SO_PEERPIDFD returns a descriptor of its process.
	unix.SYS_GETSOCKOPT: {when: append([]condition{{arg: 1, value: unix.SOL_SOCKET, not: true, then: refuse}},
		oneOf(2, refuse, unix.SO_TYPE, unix.SO_PROTOCOL, unix.SO_DOMAIN, unix.SO_ERROR, unix.SO_ACCEPTCONN, unix.SO_SNDBUF, unix.SO_RCVBUF).
			when...),
		otherwise: refuse},
	unix.SYS_SENDTO: {when: []condition{
		{arg: 3, mask: unix.MSG_OOB, value: unix.MSG_OOB, then: refuse},
		{arg: 4, value: 0, not: true, then: refuse}, // an address
	}, otherwise: allow},

	unix.SYS_IOCTL: {when: []condition{
		{arg: 1, value: unix.TIOCSTI, then: refuse},
		{arg: 1, value: unix.TIOCLINUX, then: refuse},
		{arg: 1, value: unix.FICLONE, then: notSup},
		{arg: 1, value: unix.FICLONERANGE, then: notSup},
		{arg: 1, value: unix.TCGETS, then: allow},
		{arg: 1, value: tcgets2, then: allow},
		{arg: 1, value: unix.TIOCGWINSZ, then: allow},
		{arg: 1, value: fioclex, then: allow},
		{arg: 1, value: fionclex, then: allow},
		{arg: 1, value: fionread, then: allow},
		{arg: 1, value: fionbio, then: allow},
	}, otherwise: notTTY},
	unix.SYS_FCNTL: noneOf(1, unix.F_SETLEASE, unix.F_NOTIFY, unix.F_SETPIPE_SZ, unix.F_SETSIG, unix.F_SETOWN, unix.F_SETOWN_EX),
	unix.SYS_PRCTL: oneOf(0, refuse, unix.PR_SET_NAME, unix.PR_GET_NAME, unix.PR_SET_PDEATHSIG, unix.PR_GET_PDEATHSIG,
		unix.PR_GET_DUMPABLE, unix.PR_CAPBSET_READ, unix.PR_GET_NO_NEW_PRIVS, unix.PR_GET_SECUREBITS, unix.PR_GET_SECCOMP, unix.PR_SET_VMA),
	unix.SYS_PRLIMIT64: oneOf(0, refuse, 0),
	// the write time of merged pages reveals whether another sandbox has equal ones
	unix.SYS_MADVISE:   noneOf(2, unix.MADV_MERGEABLE),
	unix.SYS_FALLOCATE: {otherwise: notSup}, // libc writes zeros instead, which the disk watch measures

	unix.SYS_OPENAT:   noSetID(3),
	unix.SYS_MKDIRAT:  noSetID(2),
	unix.SYS_FCHMOD:   noSetID(1),
	unix.SYS_FCHMODAT: noSetID(2),
	sysFchmodat2:      noSetID(2),
}

// The assembler: instructions are classic BPF over struct seccomp_data.

const (
	offNumber = 0
	offArch   = 4
	offArgs   = 16
)

type instruction struct {
	code   uint16
	jt, jf uint8
	k      uint32
}

func load(offset uint32) instruction {
	return instruction{code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, k: offset}
}

func ret(v verdict) instruction {
	return instruction{code: unix.BPF_RET | unix.BPF_K, k: uint32(v)}
}

func jump(op uint16, k uint32, jt, jf uint8) instruction {
	return instruction{code: unix.BPF_JMP | op | unix.BPF_K, jt: jt, jf: jf, k: k}
}

// filter assembles rules into a program for struct sock_fprog. It uses binary search
// over the numbers: the kernel compiles a new filter and runs it once for every number,
// so its length and depth add to the start time of each worker.
func filter(rules map[int]rule) []byte {
	numbers := make([]int, 0, len(rules))
	for nr := range rules {
		numbers = append(numbers, nr)
	}
	slices.Sort(numbers)

	program := []instruction{
		load(offArch), jump(unix.BPF_JEQ, auditArch, 1, 0), ret(kill),
		load(offNumber), jump(unix.BPF_JGE, foreignBit, 0, 1), ret(kill),
	}
	program = append(program, search(spans(numbers, rules))...)

	out := make([]byte, 0, 8*len(program))
	for _, in := range program {
		out = binary.LittleEndian.AppendUint16(out, in.code)
		out = append(out, in.jt, in.jf)
		out = binary.LittleEndian.AppendUint32(out, in.k)
	}
	return out
}

// span is a range of numbers, starting at first, with the same rule.
type span struct {
	first int
	rule  rule
}

func spans(numbers []int, rules map[int]rule) []span {
	out := []span{{0, rule{otherwise: absent}}}
	add := func(first int, r rule) {
		last := &out[len(out)-1]
		if last.first == first {
			*last = span{first, r}
			return
		}
		if len(r.when) == 0 && len(last.rule.when) == 0 && last.rule.otherwise == r.otherwise {
			return
		}
		out = append(out, span{first, r})
	}
	for i, nr := range numbers {
		add(nr, rules[nr])
		if i+1 == len(numbers) || numbers[i+1] != nr+1 {
			add(nr+1, rule{otherwise: absent})
		}
	}
	return out
}

// search returns a binary search tree with the spans' rules as leaves.
func search(s []span) []instruction {
	if len(s) == 1 {
		return leaf(s[0].rule)
	}
	mid := len(s) / 2
	left, right := search(s[:mid]), search(s[mid:])
	at := uint32(s[mid].first)
	// taken: jump over the left half; not taken: fall into it
	head := []instruction{jump(unix.BPF_JGE, at, uint8(len(left)), 0)}
	if len(left) > 255 { // too far for a conditional jump
		head = []instruction{jump(unix.BPF_JGE, at, 0, 1), {code: unix.BPF_JMP | unix.BPF_JA, k: uint32(len(left))}}
	}
	return append(append(head, left...), right...)
}

// leaf decides by a rule. A condition that compares the same whole argument as the one before it omits the load.
func leaf(r rule) []instruction {
	var out []instruction
	for i, c := range r.when {
		in := c.instructions()
		if i > 0 && r.when[i-1].arg == c.arg && r.when[i-1].mask == 0 && !r.when[i-1].not {
			in = in[1:]
		}
		out = append(out, in...)
	}
	return append(out, ret(r.otherwise))
}

func (c condition) instructions() []instruction {
	out := []instruction{load(offArgs + uint32(c.arg)*8)}
	if c.mask != 0 {
		out = append(out, instruction{code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, k: c.mask})
	}
	if !c.not {
		return append(out, jump(unix.BPF_JEQ, c.value, 0, 1), ret(c.then))
	}
	// not compares all 64 bits: the low half of a pointer may be zero
	return append(out,
		jump(unix.BPF_JEQ, c.value, 0, 2),
		load(offArgs+uint32(c.arg)*8+4), jump(unix.BPF_JEQ, 0, 1, 0),
		ret(c.then))
}
