//go:build amd64

package microvm

import (
	"bufio"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/process"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/process/keeper"
)

//go:embed guest.py
var guest string

// guestConfig is /guest.json.
type guestConfig struct {
	Seed    []byte             `json:"seed"`    // for the time until the snapshot
	Modules []string           `json:"modules"` // of the kernel, below /modules
	Dirs    []string           `json:"dirs"`    // of the private root
	Trees   []string           `json:"trees"`   // of the initramfs that it contains
	Devices []string           `json:"devices"`
	Program string             `json:"program"` // of the zygote
	Args    []string           `json:"args"`
	Env     []string           `json:"env"`
	Init    process.ZygoteInit `json:"init"`
	Import  float64            `json:"import_seconds"` // bounds the import of one module of Init.Preload
}

// writeInitramfs writes a cpio archive with the interpreter, the packages and the modules of
// the kernel: the root directory of the guest. See initramfs-buffer-format.rst of Linux.
func writeInitramfs(f io.Writer, c Config, k kernel) error {
	init, err := process.NewZygoteInit(c.Defaults.MemoryBytes)
	if err != nil {
		return err
	}
	a := &archive{w: bufio.NewWriterSize(f, 1<<20), dirs: map[string]bool{}}
	program, args, env := keeper.ZygoteCommand(c.Packages != "")
	g := guestConfig{
		Seed:    newSeed(),
		Dirs:    keeper.RootDirs,
		Devices: keeper.RootDevices,
		Program: program,
		Args:    args,
		Env:     env,
		Init:    init,
		Import:  c.importTimeout.Seconds(),
	}
	g.Init.Preload = append(g.Init.Preload, c.Preload...)
	a.dir("/shared")
	a.dir("/root")
	for _, name := range []string{"/dev", "/proc", "/sys"} {
		a.dir(name)
	}
	for name, content := range keeper.RootFiles {
		a.file(name, 0o444, []byte(content))
	}
	a.tree(c.Python, "/python")
	if c.Packages != "" {
		a.tree(c.Packages, keeper.PackagesDir)
		g.Init.Packages = keeper.PackagesDir
	}
	for _, dir := range keeper.HostData {
		if _, err := os.Stat(dir); err == nil {
			a.tree(dir, dir)
		}
	}
	for from, to := range c.Libraries {
		a.copy(from, to)
	}
	g.Trees = a.trees()
	for _, m := range k.modules {
		name := filepath.Base(m)
		a.copy(m, "/modules/"+name)
		g.Modules = append(g.Modules, name)
	}
	content, err := json.Marshal(g)
	if err != nil {
		return err
	}
	a.file("/guest.json", 0o444, content)
	a.file("/init", 0o555, []byte(guest))
	a.entry("TRAILER!!!", 0, nil)
	if a.err == nil {
		a.err = a.w.Flush()
	}
	return a.err
}

// maxInitramfs bounds the archive, of which each guest has a copy in memory.
const maxInitramfs = 1 << 30

// archive writes a cpio archive in the format "newc". The first error stops it.
type archive struct {
	w    *bufio.Writer
	size int64
	dirs map[string]bool
	next int // inode
	err  error
}

// trees returns the directories of the root that a sandbox contains.
func (a *archive) trees() (all []string) {
	for top := range a.dirs {
		if strings.Count(top, "/") == 1 && !slices.Contains([]string{"/shared", "/root", "/dev", "/proc", "/sys"}, top) {
			all = append(all, top)
		}
	}
	slices.Sort(all)
	return all
}

const (
	modeDir  = 0o040000
	modeFile = 0o100000
	modeLink = 0o120000
)

func (a *archive) entry(name string, mode int, content []byte) {
	if a.err != nil {
		return
	}
	a.next++
	name = strings.TrimPrefix(name, "/")
	// inode, mode, uid, gid, links, time, size, device, device of the node, length of the name, checksum
	_, a.err = fmt.Fprintf(a.w, "070701%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%s\x00", a.next, mode, 0, 0, 1, 0, len(content),
		0, 0, 0, 0, len(name)+1, 0, name)
	a.pad(110 + len(name) + 1)
	if a.err == nil {
		_, a.err = a.w.Write(content)
	}
	a.pad(len(content))
}

func (a *archive) pad(written int) {
	if n := -written & 3; n > 0 && a.err == nil {
		_, a.err = a.w.Write(make([]byte, n))
	}
}

// dir adds a directory and its parents.
func (a *archive) dir(name string) {
	if name == "/" || name == "." || a.dirs[name] {
		return
	}
	a.dir(path.Dir(name))
	a.dirs[name] = true
	a.entry(name, modeDir|0o755, nil)
}

func (a *archive) file(name string, mode int, content []byte) {
	a.dir(path.Dir(name))
	a.entry(name, modeFile|mode, content)
}

// copy adds a file of the host.
func (a *archive) copy(from, to string) {
	if a.err != nil {
		return
	}
	info, err := os.Stat(from)
	if err != nil {
		a.err = err
		return
	}
	if a.size += info.Size(); a.size > maxInitramfs {
		a.err = fault.New(fault.Unavailable, "the interpreter and its packages are larger than %d MB; guests of sandbox.backend microvm "+
			"have a copy of them in memory", maxInitramfs>>20).
			WithHint("remove some of sandbox.packages, or remove sandbox.backend")
		return
	}
	content, err := os.ReadFile(from)
	if err != nil {
		a.err = err
		return
	}
	mode := 0o444
	if info.Mode()&0o111 != 0 {
		mode = 0o555
	}
	a.file(to, mode, content)
}

// tree adds a directory of the host.
func (a *archive) tree(from, to string) {
	err := filepath.WalkDir(from, func(name string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		at := path.Join(to, strings.TrimPrefix(name, from))
		switch {
		case e.IsDir():
			a.dir(at)
		case e.Type()&fs.ModeSymlink != 0:
			target, err := os.Readlink(name)
			if err != nil {
				return err
			}
			a.dir(path.Dir(at))
			a.entry(at, modeLink|0o777, []byte(target))
		case e.Type().IsRegular():
			a.copy(name, at)
		}
		return a.err
	})
	if a.err == nil {
		a.err = err
	}
}
