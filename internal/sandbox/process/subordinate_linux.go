package process

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"strings"
	"syscall"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// idRange is a range of ids that the host's root grants to a user.
type idRange struct{ first, count int }

// EnterSubordinate starts this program again, in the same process, as root of a user namespace. In it
// the user's own id is 0, and the ids that /etc/subuid and /etc/subgid grant to the user are those of
// zygotes and tenants. It returns nil for root, and otherwise only if it fails.
func EnterSubordinate() error {
	if os.Geteuid() == 0 {
		return nil
	}
	names := []string{strconv.Itoa(os.Geteuid())}
	if u, err := user.Current(); err == nil {
		names = append(names, u.Username)
	}
	args := []string{"--map-root-user"}
	for _, of := range []struct{ option, file string }{{"--map-users", "/etc/subuid"}, {"--map-groups", "/etc/subgid"}} {
		b, err := os.ReadFile(of.file)
		if fault.Inconclusive(err) {
			return fault.Wrap(fault.Unavailable, err, "sandbox.subordinate_uids: %s cannot be read", of.file)
		}
		r := largestRange(string(b), names)
		if r.count < 2 {
			return fault.New(fault.Unavailable, "sandbox.subordinate_uids: %s grants no ids to user %s", of.file, names[len(names)-1]).
				WithHint("let root grant ids that no other user has, for example: usermod --add-subuids 100000-165535 --add-subgids "+
					"100000-165535 %s", names[len(names)-1])
		}
		args = append(args, fmt.Sprintf("%s=%d,%d,%d", of.option, r.first, zygoteUID, min(r.count, 1+maxTenants)))
	}
	for _, program := range []string{"newuidmap", "newgidmap"} { // of which unshare makes use
		if _, err := exec.LookPath(program); err != nil {
			return fault.Wrap(fault.Unavailable, err, "sandbox.subordinate_uids needs the program %s", program).
				WithHint("install the package uidmap (Debian, Ubuntu) or shadow-utils (Fedora, Red Hat)")
		}
	}
	unshare, err := exec.LookPath("unshare")
	if err != nil {
		return fault.Wrap(fault.Unavailable, err, "sandbox.subordinate_uids needs the program unshare").
			WithHint("install the package util-linux, version 2.38 or later")
	}
	var stderr bytes.Buffer
	try := exec.Command(unshare, append(args, "true")...)
	try.Stderr = &stderr
	if err := try.Run(); err != nil {
		return fault.Wrap(fault.Unavailable, err, "sandbox.subordinate_uids: no user namespace with the ids of /etc/subuid can be made: %s",
			strings.TrimSpace(stderr.String())).
			WithHint("unshare must be of util-linux 2.38 or later, and newuidmap and newgidmap need their privileges, which no_new_privs " +
				"takes away")
	}
	program, err := os.Executable()
	if err != nil {
		return err
	}
	return syscall.Exec(unshare, append(append([]string{unshare}, args...), append([]string{"--", program}, os.Args[1:]...)...),
		os.Environ())
}

// largestRange returns the largest range of one of names in a file such as /etc/subuid.
func largestRange(file string, names []string) (r idRange) {
	for line := range strings.Lines(file) {
		field := strings.Split(strings.TrimSpace(line), ":")
		if len(field) != 3 || !contains(names, field[0]) {
			continue
		}
		first, err := strconv.Atoi(field[1])
		count, err2 := strconv.Atoi(field[2])
		if err == nil && err2 == nil && first > 0 && count > r.count {
			r = idRange{first, count}
		}
	}
	return r
}
