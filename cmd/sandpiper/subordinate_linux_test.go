package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/longtest"
)

// ordinary is a directory of a user with an entry in /etc/passwd, in whose mount namespace
// /etc/subuid and /etc/subgid have the content of a file.
type ordinary struct {
	t   *testing.T
	dir string
}

const ordinaryID = 64_321

func newOrdinary(t *testing.T) ordinary {
	longtest.SkipSlow(t)
	needSandbox(t)
	if os.Geteuid() != 0 {
		t.Skip("only root can become another user")
	}
	if _, err := exec.LookPath("newuidmap"); err != nil && os.Getenv("REQUIRE_UIDMAP") != "" {
		t.Fatal(err)
	} else if err != nil {
		t.Skip(err)
	}
	program, err := buildSandpiper()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	passwd, err := os.ReadFile("/etc/passwd")
	if err != nil {
		t.Fatal(err)
	}
	passwd = fmt.Appendf(passwd, "ordinary:x:%d:%d::%s:/bin/sh\n", ordinaryID, ordinaryID, dir)
	for _, err := range []error{
		os.Chown(dir, ordinaryID, ordinaryID), os.Chmod(dir, 0o755),
		os.WriteFile(filepath.Join(dir, "passwd"), passwd, 0o644),
		os.WriteFile(filepath.Join(dir, "subordinate.yaml"), []byte("sandbox: {subordinate_uids: true}\n"), 0o644),
		os.WriteFile(filepath.Join(dir, "shared.yaml"), nil, 0o644),
		exec.Command("cp", program, filepath.Join(dir, "sandpiper")).Run(),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return ordinary{t, dir}
}

// run runs a script as the user, with one of the configurations, and returns what it prints.
func (o ordinary) run(granted, config, script string) (string, error) {
	o.t.Helper()
	if err := os.WriteFile(filepath.Join(o.dir, "subid"), []byte(granted), 0o644); err != nil {
		o.t.Fatal(err)
	}
	const enter = `touch /etc/subuid /etc/subgid && mount --bind subid /etc/subuid && mount --bind subid /etc/subgid && mount --bind passwd /etc/passwd &&
		exec setpriv --reuid=ordinary --regid=64321 --clear-groups sh -ec "$0"`
	cmd := exec.CommandContext(o.t.Context(), "unshare", "--mount", "sh", "-c", enter, script)
	cmd.Dir = o.dir
	cmd.Env = []string{"PATH=" + o.dir + ":" + os.Getenv("PATH"), "HOME=" + o.dir, "SANDPIPER_CONFIG=" + filepath.Join(o.dir, config)}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// Each tenant of an ordinary user has one of the ids that root grants to the user, and the daemon
// and the commands have access to its files.
func TestSubordinateUIDs(t *testing.T) {
	o := newOrdinary(t)
	const granted = "other:200000:65536\nordinary:300000:1000\n"
	out, err := o.run(granted, "subordinate.yaml", `
		for tenant in alice bob; do
			sandpiper tenant create $tenant
			sandpiper exec --tenant $tenant -c 'open("/workspace/private", "w").write("value"); import os; os.chmod("/workspace/private", 0o600)'
		done
		sandpiper files cat --tenant bob private
		sandpiper doctor
		sandpiper tenant delete alice --yes`)
	if err != nil || !strings.Contains(out, "value") || !strings.Contains(out, "each tenant has its own host uid, from 300001\n") {
		t.Errorf("%v: %s", err, out)
	}
	left, err := filepath.Glob(filepath.Join(o.dir, ".local/share/sandpiper/workspaces/*"))
	if err != nil || len(left) != 1 || filepath.Base(left[0]) != "bob" {
		t.Fatal(left, err)
	}
	for name, want := range map[string]uint32{"workspaces/bob": 300_002, "workspaces/bob/private": 300_002, "private/bob": ordinaryID,
		"key": ordinaryID} {
		fi, err := os.Lstat(filepath.Join(o.dir, ".local/share/sandpiper", name))
		if err != nil {
			t.Fatal(err)
		}
		if got := fi.Sys().(*syscall.Stat_t).Uid; got != want {
			t.Errorf("%s belongs to %d, want %d", name, got, want)
		}
	}
	out, err = o.run(granted, "shared.yaml", "sandpiper exec --tenant bob -c 1")
	if err == nil || !strings.Contains(out, "error: the tenant's workspace belongs to another user\nhint: the data directory was used by "+
		"root or with sandbox.subordinate_uids") {
		t.Errorf("without the setting: %v: %s", err, out)
	}
}

// What the setting needs and is not there is reported, and nothing is executed without it.
func TestSubordinateUIDsAreMissing(t *testing.T) {
	o := newOrdinary(t)
	for _, c := range []struct{ name, granted, script, want string }{
		{"no grant", "other:200000:65536\n", "sandpiper exec -c 1",
			"error: sandbox.subordinate_uids: /etc/subuid grants no ids to user ordinary"},
		{"an invalid grant", "ordinary:x:1\nordinary:5\nordinary:-5:100\n", "sandpiper exec -c 1",
			"grants no ids to user ordinary\nhint: let root grant ids"},
		{"no newuidmap", "ordinary:300000:1000\n", "mkdir bin; ln -s $(command -v unshare) bin; PATH=$HOME:$PWD/bin sandpiper exec -c 1",
			"needs the program newuidmap\nhint: install the package uidmap"},
		{"no privileges", "ordinary:300000:1000\n", "setpriv --no-new-privs sandpiper exec -c 1",
			"no user namespace with the ids of /etc/subuid can be made: "},
		{"serve", "", `echo '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}' | sandpiper serve`,
			"grants no ids to user ordinary"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if out, err := o.run(c.granted, "subordinate.yaml", c.script); err == nil || !strings.Contains(out, c.want) {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
	if _, err := os.Lstat(filepath.Join(o.dir, ".local/share/sandpiper")); err == nil {
		t.Error("a data directory was created")
	}
}
