package main

import (
	"bytes"
	"cmp"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/fstest"
	"time"
)

const testVersion = "v0.9.0-rc.1"

// TestInstall builds a release for this machine and starts the program from every kind of file.
func TestInstall(t *testing.T) {
	require(t, "debootstrap", "dpkg", "npm", "podman", "python3", "rpm")
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	clone := newClone(t)
	const kinds = "archives,packages,npm,wheels,images,sbom,notes,formula"
	arch := runtime.GOARCH
	dir := build(t, clone, arch, kinds)
	t.Run("same bytes", func(t *testing.T) {
		again := build(t, newClone(t), arch, kinds)
		for _, name := range names(t, dir) {
			a, err := sumOf(filepath.Join(dir, name))
			b, err2 := sumOf(filepath.Join(again, name))
			if a != b || err != nil || err2 != nil {
				t.Errorf("%s differs: %s %s", name, a, b)
			}
		}
	})
	t.Run("archive", func(t *testing.T) {
		to := t.TempDir()
		execute(t, "tar", "-xzf", filepath.Join(dir, "sandpiper_0.9.0-rc.1_linux_"+arch+".tar.gz"), "-C", to, "--strip-components=1")
		works(t, filepath.Join(to, "sandpiper"))
		notices, err := os.ReadFile(filepath.Join(to, "NOTICES"))
		for _, name := range []string{"\nCPython, ", "\ngithub.com/spf13/cobra ", "\nmodernc.org/sqlite ", "\npypdf "} {
			if err != nil || !strings.Contains(string(notices), name) {
				t.Errorf("NOTICES does not have the licence of %q: %v", name, err)
			}
		}
	})
	t.Run("wheel", func(t *testing.T) {
		to := t.TempDir()
		wheels, err := filepath.Glob(filepath.Join(dir, "*.whl"))
		if err != nil || len(wheels) != 1 {
			t.Fatal(wheels, err)
		}
		execute(t, "python3", "-m", "venv", to)
		execute(t, filepath.Join(to, "bin/pip"), "install", "-q", "--no-index", wheels[0])
		works(t, filepath.Join(to, "bin/sandpiper-mcp"))
		const client = "from sandpiper import Sandpiper\nwith Sandpiper() as s: print(s.execute('6 * 7').result)"
		if got := execute(t, filepath.Join(to, "bin/python"), "-c", client); got != "42\n" {
			t.Errorf("the client of the wheel prints %q", got)
		}
	})
	t.Run("npm", func(t *testing.T) {
		to := t.TempDir()
		execute(t, "npm", "install", "--prefix", to, "--offline", "--no-audit", "--no-fund", "--loglevel=error",
			filepath.Join(dir, "sandpiper-mcp-linux-"+npmArch[arch]+"-0.9.0-rc.1.tgz"))
		execute(t, "npm", "install", "--prefix", to, "--offline", "--omit=optional", "--no-audit", "--no-fund", "--loglevel=error",
			filepath.Join(dir, "sandpiper-mcp-0.9.0-rc.1.tgz"))
		works(t, filepath.Join(to, "node_modules/.bin/sandpiper-mcp"))
	})
	t.Run("deb", func(t *testing.T) {
		root := filepath.Join(t.TempDir(), "debian")
		copyTree(t, debianRoot(t), root)
		execute(t, "cp", filepath.Join(dir, "sandpiper_0.9.0~rc.1_"+arch+".deb"), filepath.Join(root, "sandpiper.deb"))
		execute(t, "testdata/enter", root, "dpkg", "-i", "/sandpiper.deb")
		works(t, "testdata/enter", root, "sandpiper")
		execute(t, "testdata/enter", root, "dpkg", "--purge", "sandpiper")
		if _, err := os.Lstat(filepath.Join(root, "usr/bin/sandpiper")); !os.IsNotExist(err) {
			t.Errorf("after purge: %v", err)
		}
	})
	t.Run("rpm", func(t *testing.T) {
		root := t.TempDir()
		files, err := filepath.Glob(filepath.Join(dir, "*.rpm"))
		if err != nil || len(files) != 1 {
			t.Fatal(files, err)
		}
		execute(t, "rpm", "--root", root, "--install", "--nodeps", files[0]) // the root has no other package
		works(t, filepath.Join(root, "usr/bin/sandpiper"))
		execute(t, "rpm", "--root", root, "--erase", "sandpiper")
		if _, err := os.Lstat(filepath.Join(root, "usr/bin/sandpiper")); !os.IsNotExist(err) {
			t.Errorf("after --erase: %v", err)
		}
	})
	t.Run("image", func(t *testing.T) {
		podman := newPodman(t)
		execute(t, podman, "load", "-i", filepath.Join(dir, "sandpiper_0.9.0-rc.1_image.tar"))
		if got := execute(t, podman, "run", "--rm", "--network", "none", "--cap-drop", "all", "--security-opt", "no-new-privileges",
			"--security-opt", "seccomp=../../packaging/seccomp.json", "localhost/sandpiper:0.9.0-rc.1", "exec", "-c",
			"2**100"); got != power {
			t.Errorf("exec prints %q", got)
		}
	})
	t.Run("image beside the program", func(t *testing.T) {
		to, path := t.TempDir(), filepath.Dir(newPodman(t))
		execute(t, "tar", "-xzf", filepath.Join(dir, "sandpiper_0.9.0-rc.1_linux_"+arch+".tar.gz"), "-C", to, "--strip-components=1")
		program := filepath.Join(to, "sandpiper")
		serve := exec.Command(program, "serve", "--container")
		serve.Env = append(os.Environ(), "PATH="+path, "XDG_CONFIG_HOME="+t.TempDir())
		out, err := serve.CombinedOutput()
		if err == nil || !strings.Contains(string(out), "there is no sandpiper-image.tar beside "+program) {
			t.Errorf("without an image: %v, %s", err, out)
		}
		r := &release{version: "0.9.0-rc.1", root: clone, programs: map[target]string{{"linux", arch}: program}}
		if err := r.writeDockerArchive(t.Context(), filepath.Join(to, "sandpiper-image.tar"), arch); err != nil {
			t.Fatal(err)
		}
		serve = exec.Command(program, "serve", "--container", "--profile", "lean")
		serve.Env = append(os.Environ(), "PATH="+path, "XDG_CONFIG_HOME="+t.TempDir())
		converse(t, serve)
	})
}

// TestOtherArchitectures starts the programs of archives for processors that this machine emulates.
func TestOtherArchitectures(t *testing.T) {
	require(t, "qemu-aarch64-static")
	if runtime.GOARCH != "amd64" {
		t.Skip("needs amd64")
	}
	dir, to := build(t, newClone(t), "arm64", "archives"), t.TempDir()
	execute(t, "tar", "-xzf", filepath.Join(dir, "sandpiper_0.9.0-rc.1_linux_arm64.tar.gz"), "-C", to, "--strip-components=1")
	if got := execute(t, "qemu-aarch64-static", filepath.Join(to, "sandpiper"), "--version"); !strings.HasPrefix(got,
		"sandpiper "+testVersion+" ") || !strings.Contains(got, "linux/arm64") {
		t.Errorf("--version prints %q", got)
	}
}

// TestNotes writes the notes of a first release with a change after its text. Those of later
// releases have such changes only.
func TestNotes(t *testing.T) {
	r := &release{version: "0.9.0", root: t.TempDir(), dir: t.TempDir(), time: time.Date(2026, 11, 29, 0, 0, 0, 0, time.UTC)}
	err := os.CopyFS(filepath.Join(r.root, "changelog/unreleased"), fstest.MapFS{
		"access-log.md":      {Data: []byte("# writes an access log\n\nA line for each request.\n")},
		"0-first-release.md": {Data: []byte("runs Python\n\nIt is one program.\n\n**Search**\n\n- By keywords.\n")},
		"sooner.md":          {Data: []byte("answers sooner\n")},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := writeNotes(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(r.dir, "RELEASE_NOTES.md"))
	want := `# Sandpiper 0.9.0

2026-11-29

**runs Python**

It is one program.

**Search**

- By keywords.

**writes an access log**

A line for each request.

**answers sooner**
`
	if string(got) != want {
		t.Errorf("the notes are %v\n%s", err, got)
	}
}

const power = "1267650600228229401496703205376\n"

// works checks exec and serve of an installed program.
func works(t *testing.T, command ...string) {
	t.Helper()
	if got := execute(t, append(command, "exec", "-c", "2**100")...); got != power {
		t.Errorf("exec prints %q", got)
	}
	if got := execute(t, append(command, "--version")...); !strings.HasPrefix(got, "sandpiper "+testVersion+" ") {
		t.Errorf("--version prints %q", got)
	}
	command = append(command, "serve")
	converse(t, exec.Command(command[0], command[1:]...))
}

// converse lets a server execute 6 * 7.
func converse(t *testing.T, c *exec.Cmd) {
	t.Helper()
	c.Stdin = strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"execute_code","arguments":{"code":"6 * 7"}}}
`)
	var stderr bytes.Buffer
	c.Stderr = &stderr
	out, err := c.Output()
	if err != nil || !strings.Contains(string(out), `\"result\":42`) {
		t.Errorf("serve: %v\n%s\n%s", err, out, &stderr)
	}
}

// require skips the test if a program is missing, or fails it if REQUIRE_RELEASE is set.
func require(t *testing.T, programs ...string) {
	t.Helper()
	if os.Getenv("REQUIRE_RELEASE") != "" {
		return
	}
	for _, name := range programs {
		if _, err := exec.LookPath(name); err != nil {
			t.Skip(err)
		}
	}
}

// newClone clones the repository to a new directory.
func newClone(t *testing.T) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "clone")
	execute(t, "git", "clone", "-q", "--no-hardlinks", "../..", to)
	return to
}

// build builds some kinds of files of a release from a clone, for one architecture.
func build(t *testing.T, clone, arch, kinds string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "files")
	c := exec.Command("go", "run", ".", "-version", testVersion, "-dir", dir, "-arch", arch, "-only", kinds)
	c.Dir = filepath.Join(clone, "scripts/release")
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return dir
}

func names(t *testing.T, dir string) (all []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) < 10 {
		t.Fatal(len(entries), err)
	}
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

// execute returns the standard output of a command that must succeed.
func execute(t *testing.T, command ...string) string {
	t.Helper()
	var stderr bytes.Buffer
	c := exec.CommandContext(t.Context(), command[0], command[1:]...)
	c.Stderr = &stderr
	out, err := c.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s%s", strings.Join(command, " "), err, out, &stderr)
	}
	return string(out)
}

// debianRoot returns a new Debian, which CI keeps for the next run.
func debianRoot(t *testing.T) string {
	t.Helper()
	root := filepath.Join(cmp.Or(os.Getenv("CI_TOOLS"), t.TempDir()), "debian")
	if _, err := os.Stat(root); err == nil {
		return root
	}
	mirror := strings.Fields(execute(t, "apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages", "Origin: Debian",
		"Component: main"))
	if len(mirror) == 0 {
		t.Fatal("apt has no Debian mirror")
	}
	execute(t, "debootstrap", "--variant=minbase", debian, root+".part", mirror[0])
	if err := os.Rename(root+".part", root); err != nil {
		t.Fatal(err)
	}
	return root
}

func copyTree(t *testing.T, from, to string) {
	t.Helper()
	execute(t, "cp", "-a", "--reflink=auto", from, to)
}

// newPodman returns a program named podman that runs the real one with files of its own, without
// what this host may not have: control groups, and the right to raise limits.
func newPodman(t *testing.T) string {
	t.Helper()
	real, err := exec.LookPath("podman")
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "podman-") // --runroot has at most 50 characters
	if err != nil {
		t.Fatal(err)
	}
	script := `#!/bin/sh
PATH=/usr/sbin:/usr/bin:/sbin:/bin
if [ "$1" = run ]; then
	shift
	set -- run --cgroups=disabled --ulimit nofile=1024:1024 --ulimit nproc=1000:1000 --ulimit memlock=65536:65536 "$@"
fi
exec unshare --mount --propagation slave sh -c 'umount -R /sys/fs/cgroup && mount -t cgroup2 none /sys/fs/cgroup && exec ` + real + ` --root ` + filepath.Join(dir, "storage") + ` --runroot ` + filepath.Join(dir, "run") + ` "$@"' podman "$@"
`
	path := filepath.Join(dir, "podman")
	if err := os.WriteFile(path, []byte(script), fs.FileMode(0o755)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		exec.Command(path, "system", "reset", "--force").Run()
		os.RemoveAll(dir)
	})
	return path
}
