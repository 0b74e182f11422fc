package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// The files of the second seed select a virtual machine for each sandbox. The processor is
// emulated, since few machines that test have KVM. MICROVM_KERNEL is the path of a kernel that
// is not in /boot.
func TestSecondSeedRunsInVirtualMachine(t *testing.T) {
	requireMicroVM(t)
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
	run("guest of Linux", emulated, "exec", "-c", "import platform\nwrite_file('a.txt', 'guest of ' + "+
		"platform.system())\nread_file('a.txt')")
	run("The microvm sandbox works", emulated, "doctor")
}

func requireMicroVM(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("qemu-system-x86_64"); err != nil {
		if os.Getenv("REQUIRE_MICROVM") != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	if os.Getenv("REQUIRE_MICROVM") == "" && os.Getenv("MICROVM_KERNEL") == "" {
		t.Skip("MICROVM_KERNEL names no kernel")
	}
}

// Packages of the package index, native code too, work in virtual machines and are in the snapshot.
// The version of NumPy is that of testdata/packages_numpy.
func TestNumPyInVirtualMachine(t *testing.T) {
	requireMicroVM(t)
	_, tell := installedPackages(t, "packages_numpy")
	t.Setenv("SANDPIPER_SANDBOX_BACKEND", "microvm")
	t.Setenv("SANDPIPER_SANDBOX_MICROVM_ACCEL", "tcg")
	t.Setenv("SANDPIPER_SANDBOX_MICROVM_KERNEL", os.Getenv("MICROVM_KERNEL"))
	t.Setenv("SANDPIPER_SANDBOX_MAX_TIMEOUT", "300s")
	t.Setenv("SANDPIPER_SANDBOX_TIMEOUT", "300s")
	out := tell("exec", "--json", "-c", `import sys
there = "numpy" in sys.modules
import numpy as np
a = np.arange(12.0).reshape(3, 4)
np.save("a.npy", a)
[there, round(float(np.linalg.det(a @ a.T + np.eye(3)))), np.load("a.npy").sum()]`)
	var got struct{ Result json.RawMessage }
	if err := json.Unmarshal(out, &got); err != nil || strings.Join(strings.Fields(string(got.Result)), "") != "[true,2427,66.0]" {
		t.Errorf("%v %s", err, out)
	}
}
