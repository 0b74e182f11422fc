package keeper

import (
	"fmt"
	"os"
	"path"
	"slices"

	"golang.org/x/sys/unix"
)

// RootsDir contains the roots of mounts. A zygote unmounts them.
const RootsDir = "/.roots"

// PackagesDir is the mount point of packages.
const PackagesDir = "/packages"

// Python is the interpreter.
const Python = "/python/bin/python3.14"

// The private root is a small read-only tmpfs: the interpreter, the files of
// glibc that it needs, five devices, and empty mount points.

// RootDirs are the directories of the private root.
var RootDirs = []string{"/tmp", "/dev/shm", "/workspace", "/python", "/proc", "/etc"}

// RootFiles are its files, with their content.
var RootFiles = map[string]string{
	"/etc/passwd":        "root:x:0:0:root:/:/\nsandbox:x:65534:65534:sandbox:/workspace:/\n",
	"/etc/group":         "root:x:0:\nsandbox:x:65534:\n",
	"/etc/hosts":         "127.0.0.1 localhost\n",
	"/etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
}

// RootDevices are its devices.
var RootDevices = []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"}

// HostData is mounted if the host has it: zones for zoneinfo, and the locale of LANG,
// without which locale.setlocale(LC_ALL, "") fails.
var HostData = []string{"/usr/share/zoneinfo", "/usr/lib/locale/C.utf8"}

const (
	noWrite = unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV
)

// source is a file or directory of the host that is mounted inside.
type source struct {
	from, to string
	attr     uint64
	file     bool
	optional bool
	link     string // target, for a symbolic link
}

func sources(init Init) []source {
	s := privateTree(init)
	if slices.Contains(init.Disabled, "root") {
		s = hostTree()
	}
	s = append(s, source{from: init.Python, to: "/python", attr: noWrite})
	if init.Packages != "" {
		s = append(s, source{from: init.Packages, to: PackagesDir, attr: noWrite})
	}
	for key, dir := range init.Roots {
		s = append(s, source{from: dir, to: path.Join(RootsDir, key), attr: unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV | noExec(init)})
	}
	return s
}

// noExec returns the attribute of mounts that have nothing to execute.
func noExec(init Init) uint64 {
	if slices.Contains(init.Disabled, "noexec") {
		return 0
	}
	return unix.MOUNT_ATTR_NOEXEC
}

// privateTree returns the files of the host that the interpreter needs.
func privateTree(init Init) []source {
	var s []source
	for _, dir := range HostData {
		s = append(s, source{from: dir, to: dir, attr: noWrite | unix.MOUNT_ATTR_NOEXEC, optional: true})
	}
	for from, to := range init.Libraries {
		s = append(s, source{from: from, to: to, attr: noWrite, file: true})
	}
	for _, dev := range RootDevices {
		from := dev
		if dev == "/dev/zero" { // its mappings would be shared memory without a file, if the kernel lacks Landlock
			from = "/dev/full" // reads the same
		}
		s = append(s, source{from: from, to: dev, attr: unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NOEXEC, file: true})
	}
	return s
}

// hostTree returns the whole root directory of the host, for a sandbox without the
// layer "root".
func hostTree() []source {
	var s []source
	entries, _ := os.ReadDir("/")
	for _, e := range entries {
		at := "/" + e.Name()
		if target, err := os.Readlink(at); err == nil {
			s = append(s, source{to: at, link: target})
		} else if e.IsDir() {
			s = append(s, source{from: at, to: at, optional: true})
		}
	}
	return s
}

// buildRoot assembles the private root and pivots into it. All sources are
// cloned before anything is mounted over the host's tree.
func buildRoot(init Init) error {
	list := sources(init)
	trees := make([]int, len(list))
	for i, s := range list {
		if trees[i] = -1; s.link != "" {
			continue
		}
		fd, err := CloneTree(unix.AT_FDCWD, s.from, unix.MountAttr{Attr_set: s.attr, Propagation: unix.MS_PRIVATE})
		if err != nil && !s.optional {
			return fmt.Errorf("%s: %w", s.from, err)
		}
		trees[i] = fd
	}
	if err := unix.Mount("sandbox", init.Python, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "size=1m,mode=755"); err != nil {
		return fmt.Errorf("mounting the private root: %w", err)
	}
	if err := unix.Chdir(init.Python); err != nil {
		return err
	}
	if err := populate(list); err != nil {
		return err
	}
	for i, s := range list {
		if trees[i] < 0 {
			continue
		}
		err := unix.MoveMount(trees[i], "", unix.AT_FDCWD, "."+s.to, unix.MOVE_MOUNT_F_EMPTY_PATH)
		unix.Close(trees[i])
		if err != nil {
			return fmt.Errorf("mounting %s: %w", s.to, err)
		}
	}
	return Pivot(noExec(init))
}

// populate makes the mount points and files in the current directory.
func populate(list []source) error {
	dirs := append([]string(nil), RootDirs...)
	for _, s := range list {
		if s.file || s.link != "" {
			dirs = append(dirs, path.Dir(s.to))
		} else {
			dirs = append(dirs, s.to)
		}
	}
	for _, d := range dirs {
		if err := os.MkdirAll("."+d, 0o755); err != nil {
			return err
		}
	}
	for name, content := range RootFiles {
		if err := os.WriteFile("."+name, []byte(content), 0o444); err != nil {
			return err
		}
	}
	for _, s := range list {
		var err error
		if s.link != "" {
			err = os.Symlink(s.link, "."+s.to)
		} else if s.file {
			err = os.WriteFile("."+s.to, nil, 0o444)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Pivot makes the current directory the root, unmounts the host's tree, and makes the
// new root read-only, with attr.
func Pivot(attr uint64) error {
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("pivot_root: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("unmounting the host's root: %w", err)
	}
	if err := unix.Chdir("/"); err != nil {
		return err
	}
	if err := unix.MountSetattr(unix.AT_FDCWD, "/", 0, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY | attr}); err != nil {
		return fmt.Errorf("making the root read-only: %w", err)
	}
	return nil
}
