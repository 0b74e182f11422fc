package gvisor

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/process"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/process/keeper"
)

// The types below are the part of the OCI runtime specification that a bundle needs
// (https://github.com/opencontainers/runtime-spec/blob/v1.2.1/config.md).
type ociSpec struct {
	Version  string     `json:"ociVersion"`
	Process  ociProcess `json:"process"`
	Root     ociRoot    `json:"root"`
	Hostname string     `json:"hostname"`
	Mounts   []ociMount `json:"mounts"`
	Linux    struct {
		Namespaces []ociNamespace `json:"namespaces"`
	} `json:"linux"`
}

type ociProcess struct {
	User            ociUser             `json:"user"`
	Args            []string            `json:"args"`
	Env             []string            `json:"env"`
	Cwd             string              `json:"cwd"`
	NoNewPrivileges bool                `json:"noNewPrivileges"`
	Capabilities    map[string][]string `json:"capabilities"`
	RLimits         []ociRLimit         `json:"rlimits"`
}

type ociRLimit struct {
	Type string `json:"type"`
	Soft uint64 `json:"soft"`
	Hard uint64 `json:"hard"`
}

type ociUser struct {
	UID int `json:"uid"`
	GID int `json:"gid"`
}

type ociRoot struct {
	Path     string `json:"path"`
	ReadOnly bool   `json:"readonly"`
}

type ociMount struct {
	Destination string   `json:"destination"`
	Type        string   `json:"type"`
	Source      string   `json:"source"`
	Options     []string `json:"options"`
}

type ociNamespace struct {
	Type string `json:"type"`
}

// queuedSignals bounds the pending signals with data in one sandbox.
const queuedSignals = 256

const start = "import gc, sys; gc.disable(); sys.path.insert(0, '/python'); from sandpiper import guest; sys.path.remove('/python'); " +
	"guest.main()"

// writeBundle writes the configuration of a sandbox for spec to dir.
func (b *Backend) writeBundle(dir string, spec sandbox.Spec) error {
	mounts, err := b.tenantMounts(spec)
	if err != nil {
		return err
	}
	uid, err := process.TenantUID(spec.UID) // without ids for tenants, runsc maps only 0, to that of the daemon
	if err != nil {
		return err
	}
	_, _, env := keeper.ZygoteCommand(b.cfg.Packages != "")
	s := ociSpec{
		Version: "1.2.1", Hostname: "sandbox", Root: ociRoot{b.rootfs(), true},
		Process: ociProcess{
			User: ociUser{uid, uid},
			Args: []string{"/python/bin/python3.14", "-P", "-s", "-B", "-X", "utf8", "-c", start},
			Env:  env, Cwd: "/", NoNewPrivileges: true,
			Capabilities: map[string][]string{"bounding": {}, "effective": {}, "inheritable": {}, "permitted": {}, "ambient": {}},
			RLimits:      []ociRLimit{{"RLIMIT_MSGQUEUE", 0, 0}, {"RLIMIT_SIGPENDING", queuedSignals, queuedSignals}},
		},
		Mounts: append(b.sharedMounts(spec.Limits), mounts...),
	}
	for _, name := range []string{"pid", "ipc", "uts", "mount", "network"} {
		s.Linux.Namespaces = append(s.Linux.Namespaces, ociNamespace{name})
	}
	data, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "config.json"), data, 0o600)
}

// sharedMounts are the same in all sandboxes. Empty directories hide what runsc mounts by
// default: code runs without /proc and /sys.
func (b *Backend) sharedMounts(l sandbox.Limits) []ociMount {
	mounts := []ociMount{{"/dev", "tmpfs", "tmpfs", []string{"ro", "nosuid", "noexec"}}} // runsc fills it with devices
	for _, dir := range []string{"/proc", "/sys", "/dev/pts", "/dev/net"} {
		mounts = append(mounts, ociMount{dir, "tmpfs", "tmpfs", []string{"ro", "nosuid", "nodev", "noexec", "size=4096"}})
	}
	for _, dir := range []string{"/tmp", "/dev/shm"} { // both count towards the memory limit and fit it together
		mounts = append(mounts, ociMount{dir, "tmpfs", "tmpfs",
			[]string{"nosuid", "nodev", "noexec", "mode=1777", fmt.Sprintf("size=%d", l.MemoryBytes/2)}})
	}
	mounts = append(mounts, bind(b.cfg.Python, "/python", true))
	if b.cfg.Packages != "" {
		mounts = append(mounts, bind(b.cfg.Packages, keeper.PackagesDir, true))
	}
	for _, dir := range keeper.HostData {
		if _, err := os.Stat(dir); err == nil {
			mounts = append(mounts, bind(dir, dir, true))
		}
	}
	return mounts
}

func bind(from, to string, readOnly bool, options ...string) ociMount {
	access := "rw"
	if readOnly {
		access = "ro"
	}
	return ociMount{to, "bind", from, append([]string{"bind", access, "nosuid", "nodev"}, options...)}
}

// tenantMounts returns the mounts of spec.
func (b *Backend) tenantMounts(spec sandbox.Spec) ([]ociMount, error) {
	var mounts []ociMount
	for i, m := range spec.Mounts {
		root, ok := b.cfg.Roots[m.Root]
		if !ok {
			return nil, fmt.Errorf("sandbox: there is no root %q", m.Root)
		}
		if err := isDirectory(root, m.Name); err != nil {
			return nil, err
		}
		mounts = append(mounts, bind(filepath.Join(root, m.Name), mountedAt(m, i), m.ReadOnly, "noexec"))
	}
	return mounts, nil
}

// mountedAt returns where runsc mounts m, which is number i of its spec. A mount point in a
// workspace can be exchanged by code of the tenant at any time, and runsc would follow a link: such
// a mount is at another place until the worker binds it.
func mountedAt(m sandbox.Mount, i int) string {
	if strings.HasPrefix(m.Target, "/workspace/") {
		return "/sys/" + strconv.Itoa(i)
	}
	return m.Target
}

// isDirectory fails unless name is a directory below dir, without links.
func isDirectory(dir, name string) error {
	d, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("mounting %s: %w", dir, err)
	}
	defer unix.Close(d)
	fd, err := unix.Openat2(d, name, &unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	})
	if err != nil {
		return fmt.Errorf("mounting %s: %w", name, err)
	}
	return unix.Close(fd)
}

// rootfs is the root directory of all sandboxes, which is mounted read-only.
func (b *Backend) rootfs() string { return filepath.Join(b.dir, "root") }

// makeRoot writes it: the files of glibc and /etc, and empty mount points.
func (b *Backend) makeRoot() error {
	dirs := slices.Concat(keeper.RootDirs, keeper.HostData, []string{keeper.PackagesDir, "/sys"})
	for _, to := range b.cfg.Libraries {
		dirs = append(dirs, path.Dir(to))
	}
	for _, dir := range dirs {
		if err := os.MkdirAll(b.rootfs()+dir, 0o755); err != nil {
			return err
		}
	}
	defer makeReadable(b.rootfs())
	for name, content := range keeper.RootFiles {
		if err := os.WriteFile(b.rootfs()+name, []byte(content), 0o444); err != nil {
			return err
		}
	}
	for from, to := range b.cfg.Libraries {
		if err := copyFile(from, b.rootfs()+to); err != nil {
			return err
		}
	}
	return nil
}

func copyFile(from, to string) error {
	r, err := os.Open(from)
	if err != nil {
		return err
	}
	defer r.Close()
	w, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o555)
	if err != nil {
		return err
	}
	_, err = io.Copy(w, r)
	return errors.Join(err, w.Close())
}

// makeReadable gives every uid access to the files below dir, whatever the umask.
func makeReadable(dir string) {
	_ = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil {
			_ = os.Chmod(path, 0o755)
		}
		return err
	})
}
