package process

import (
	"debug/elf"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// instead maps each call that only amd64 has to the calls that libc makes on other
// architectures, such as arm64. Nil means that they have or need no such call.
var instead = map[int][]int{
	unix.SYS_STAT: nil, unix.SYS_LSTAT: nil, unix.SYS_NEWFSTATAT: nil, // fstatat
	unix.SYS_GETRLIMIT: nil, unix.SYS_SETRLIMIT: nil,
	unix.SYS_ARCH_PRCTL: nil, // the thread pointer is an ordinary register there

	unix.SYS_OPEN: {unix.SYS_OPENAT}, unix.SYS_MKDIR: {unix.SYS_MKDIRAT},
	unix.SYS_CHMOD: {unix.SYS_FCHMODAT}, unix.SYS_ACCESS: {unix.SYS_FACCESSAT}, unix.SYS_READLINK: {unix.SYS_READLINKAT},
	unix.SYS_RENAME: {unix.SYS_RENAMEAT}, unix.SYS_RMDIR: {unix.SYS_UNLINKAT}, unix.SYS_UNLINK: {unix.SYS_UNLINKAT},
	unix.SYS_LINK: {unix.SYS_LINKAT}, unix.SYS_SYMLINK: {unix.SYS_SYMLINKAT}, unix.SYS_CHOWN: {unix.SYS_FCHOWNAT},
	unix.SYS_LCHOWN:   {unix.SYS_FCHOWNAT},
	unix.SYS_UTIMES:   {unix.SYS_UTIMENSAT},
	unix.SYS_GETDENTS: {unix.SYS_GETDENTS64},
	unix.SYS_VFORK:    {unix.SYS_CLONE}, unix.SYS_GETPGRP: {unix.SYS_GETPGID},
	unix.SYS_POLL: {unix.SYS_PPOLL}, unix.SYS_SELECT: {unix.SYS_PSELECT6}, unix.SYS_PAUSE: {unix.SYS_PPOLL},
	unix.SYS_PIPE: {unix.SYS_PIPE2}, unix.SYS_DUP2: {unix.SYS_DUP3},
	unix.SYS_ALARM: {unix.SYS_SETITIMER}, unix.SYS_TIME: {unix.SYS_CLOCK_GETTIME},
}

// The lists are derived on amd64; this test makes them valid for arm64.
func TestReplacementsOfAMD64CallsAreAllowed(t *testing.T) {
	for nr := range allowedHere {
		others, known := instead[nr]
		if !known {
			t.Errorf("the table instead lacks system call %d", nr)
		}
		for _, other := range others {
			if _, ok := allowed[other]; !ok {
				t.Errorf("system call %d, which replaces %d, is not allowed on every architecture", other, nr)
			}
		}
	}
}

// Each function that makes an allowed call is one that the embedded interpreter calls.
func TestInterpreterNeedsAllowedCalls(t *testing.T) {
	h := newHost(t)
	f, err := elf.Open(filepath.Join(h.cfg.Python, "bin/python3.14"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	symbols, err := f.ImportedSymbols()
	if err != nil {
		t.Fatal(err)
	}
	imported := map[string]bool{}
	for _, s := range symbols {
		imported[s.Name] = true
	}
	for _, calls := range []map[int]string{allowed, allowedHere} {
		for nr, need := range calls {
			functions, code, _ := strings.Cut(need, ": ")
			if code == "" || functions == "" && nr != unix.SYS_CAPGET {
				t.Errorf("system call %d: %q does not name both functions and the code that calls them", nr, need)
			}
			for name := range strings.FieldsSeq(functions) {
				if !imported[name] {
					t.Errorf("system call %d: the interpreter does not import %s", nr, name)
				}
			}
		}
	}
}

// A call that is allowed with some arguments also has the code that needs it.
func TestCheckedCallsAreInTheTable(t *testing.T) {
	for _, rules := range []map[int]rule{checked, checkedHere} {
		for nr, r := range rules {
			some := r.otherwise == allow || slices.ContainsFunc(r.when, func(c condition) bool { return c.then == allow })
			if allowed[nr] == "" && allowedHere[nr] == "" && some {
				t.Errorf("the tables of allowed calls lack system call %d", nr)
			}
		}
	}
}
