package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// The files of the second seed select a virtual machine for each sandbox. The processor is
// emulated, since few machines that test have KVM. MICROVM_KERNEL is the path of a kernel that
// is not in /boot.
func TestSecondSeedRunsInVirtualMachine(t *testing.T) {
	if _, err := exec.LookPath("qemu-system-x86_64"); err != nil {
		if os.Getenv("REQUIRE_MICROVM") != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	if os.Getenv("REQUIRE_MICROVM") == "" && os.Getenv("MICROVM_KERNEL") == "" {
		t.Skip("MICROVM_KERNEL names no kernel")
	}
	dir := t.TempDir()
	writeAll(t, dir, secondSeed)
	if out, err := sandpiper(dir, "trust", "--yes").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	run := func(want string, environ []string, args ...string) {
		t.Helper()
		cmd := sandpiper(dir, args...)
		cmd.Env = append(cmd.Environ(), environ...)
		if out, _ := cmd.CombinedOutput(); !strings.Contains(string(out), want) {
			t.Errorf("%q: no %q in\n%s", args, want, out)
		}
	}
	emulated := []string{
		"SANDPIPER_SANDBOX_MICROVM_ACCEL=tcg", "SANDPIPER_SANDBOX_MICROVM_KERNEL=" + os.Getenv("MICROVM_KERNEL"),
		"SANDPIPER_SANDBOX_MAX_TIMEOUT=300s", "SANDPIPER_SANDBOX_TIMEOUT=300s",
	}
	run("needs qemu-system-x86_64", []string{"PATH=" + t.TempDir()}, "exec", "-c", "1+1")
	run("NOT AN ISOLATION BOUNDARY", emulated, "exec", "-c", "1+1")
	run("guest of Linux", emulated, "exec", "-c", "import platform\nwrite_file('a.txt', 'guest of ' + platform.system())\nread_file('a.txt')")
	run("The microvm sandbox works", emulated, "doctor")
}
