package process

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/process/keeper"
)

// Code of preloaded modules runs in the zygote and stays in the interpreter that its workers inherit.
// So a zygote with such modules has no privileges that it could pass on: before the first import it
// is locked down as a worker is, in a pid namespace of its own. What its workers need beyond that, the
// keeper does from outside: ids, mounts and scratch space. The one step that only the process itself
// can take is unshare, into a user namespace that gives it nothing. The filter allows it with a key
// that the zygote receives after the imports.

// apartFlags are the namespaces that a worker of such a zygote enters.
const apartFlags = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID

// unshareKey is the second to fifth argument of unshare, which the kernel ignores.
type unshareKey [4]uint32

func newUnshareKey() unshareKey {
	var b [16]byte
	_, _ = rand.Read(b[:]) // it never fails
	var k unshareKey
	for i := range k {
		k[i] = binary.NativeEndian.Uint32(b[4*i:])
	}
	return k
}

// apartRules is the filter of a zygote with preloaded modules and of its unbound workers, in place of
// bindingRules: that of a locked-down worker plus calls that give up privileges, messages over
// the sockets of the daemon, and unshare of flags with key.
func apartRules(flags uint32, key unshareKey) map[int]rule {
	rules := workerRules()
	for _, nr := range []int{
		unix.SYS_CAPSET, unix.SYS_SETRESUID, unix.SYS_SETRESGID, unix.SYS_SETGROUPS,
		unix.SYS_LANDLOCK_CREATE_RULESET, unix.SYS_LANDLOCK_ADD_RULE, unix.SYS_LANDLOCK_RESTRICT_SELF,
		unix.SYS_RECVMSG, unix.SYS_SENDMSG, unix.SYS_PIDFD_OPEN, unix.SYS_CLOSE_RANGE,
	} {
		rules[nr] = rule{otherwise: allow}
	}
	prctl := rules[unix.SYS_PRCTL]
	prctl.when = append(prctl.when[:len(prctl.when):len(prctl.when)],
		oneOf(0, refuse, unix.PR_SET_NO_NEW_PRIVS, unix.PR_CAPBSET_DROP, unix.PR_CAP_AMBIENT).when...)
	rules[unix.SYS_PRCTL] = prctl
	rules[unix.SYS_SECCOMP] = rule{when: []condition{ // without flags: a listener would see the calls of workers
		{arg: 0, value: unix.SECCOMP_SET_MODE_FILTER, not: true, then: refuse},
		{arg: 1, value: 0, not: true, then: refuse},
	}, otherwise: allow}
	unshare := rule{otherwise: allow, when: []condition{
		{arg: 0, value: unix.CLONE_THREAD, then: allow}, // tests whether there are other threads
		{arg: 0, value: flags, not: true, then: refuse},
	}}
	for i, part := range key {
		unshare.when = append(unshare.when, condition{arg: 1 + i, value: part, not: true, then: refuse})
	}
	rules[unix.SYS_UNSHARE] = unshare
	return rules
}

// confine changes init to that of a zygote that is locked down before it imports anything, and returns
// the key of its filter. The filter is not in init, since text in the memory of the zygote would
// contain the key.
func (init *zygoteInit) confine(b *Backend) (program []byte, key unshareKey) {
	init.Apart = apartFlags
	if init.Own {
		init.Apart |= unix.CLONE_NEWNET | unix.CLONE_NEWIPC
	}
	init.Landlock, init.Programs, init.FilterFirst = b.landlock, b.programs, ""
	key = newUnshareKey()
	first := b.withEpoll(apartRules(uint32(init.Apart), key))
	init.FilterSecond = encode(filter(lockdownRules(first, b.withEpoll(b.workerRules()))))
	return filter(first), key
}

// pipeOf returns the end of a pipe from which data, which fits into a pipe, can be read once.
func pipeOf(data []byte) (int, error) {
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		return -1, err
	}
	_, err := unix.Write(p[1], data)
	unix.Close(p[1])
	if err != nil {
		unix.Close(p[0])
		return -1, err
	}
	return p[0], nil
}

// insideUID is the id that a worker has in its own user namespace, as code sees it in every sandbox.
const insideUID = 65534

// place lets the keeper give an unbound worker the ids, mounts and scratch space of its sandbox.
func (k *keeperHandle) place(pidfd *os.File, pid, id int, tmp int64, mounts []keeper.Mount) error {
	proc, err := unix.Open("/proc/"+strconv.Itoa(pid), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("opening a worker: %w", err)
	}
	defer unix.Close(proc)
	c, err := pidfd.SyscallConn()
	if err != nil {
		return err
	}
	failed := c.Control(func(fd uintptr) {
		if pidOf(int(fd)) != pid { // it has ended, and proc may be of another process
			err = unix.ESRCH
			return
		}
		_, err = k.request(keeper.Request{Op: "place", Mount: mounts, Inside: insideUID, ID: id, TmpBytes: tmp}, int(fd), proc)
	})
	if failed != nil {
		return failed
	}
	return err
}
