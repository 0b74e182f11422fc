package process

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// holding is what the processes of sandboxes hold of files without a name.
type holding struct {
	open    space
	holders []*box
	dev     uint64
	seen    map[uint64]bool // inodes
}

// heldBy adds up the deleted files in the file system of dir that processes of
// boxes have open, or stand in.
func heldBy(ctx context.Context, dir string, boxes []*box) (*holding, error) {
	h := &holding{seen: map[uint64]bool{}}
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		return h, err
	}
	h.dev = st.Dev
	for _, x := range boxes {
		own := &holding{dev: h.dev, seen: map[uint64]bool{}}
		if err := eachTask(ctx, x, own.task); err != nil {
			return h, err
		}
		if len(own.seen) == 0 || x.w.gone() { // what was read may be another's, which has its cgroup now
			continue
		}
		h.holders = append(h.holders, x)
		h.open = h.open.plus(own.open)
	}
	return h, nil
}

// eachTask calls f with the directory in /proc of each thread in a sandbox. One
// that ends meanwhile is no error.
func eachTask(ctx context.Context, x *box, f func(task string) error) error {
	for _, pid := range x.w.members() {
		tasks := "/proc/" + strconv.Itoa(pid) + "/task/"
		threads, _ := os.ReadDir(tasks)
		for _, t := range threads {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := f(tasks + t.Name()); err != nil && !gone(err) {
				return err
			}
		}
	}
	return nil
}

// gone reports whether err says that a process has ended.
func gone(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) }

// task counts what one thread holds; its descriptors may be its own.
func (h *holding) task(task string) error {
	for _, name := range []string{"/cwd", "/root"} {
		h.count(task + name)
	}
	dir, err := os.Open(task + "/fd")
	if err != nil {
		return err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	for _, name := range names {
		h.count(task + "/fd/" + name)
	}
	return err
}

func (h *holding) count(link string) {
	var st unix.Stat_t
	if unix.Stat(link, &st) != nil || st.Nlink > 0 || st.Dev != h.dev || h.seen[st.Ino] {
		return
	}
	h.seen[st.Ino] = true
	h.open = h.open.plus(space{st.Blocks * 512, 1})
}

// addMapped counts deleted files that are mapped and no longer open. Their size
// is known to nobody but root: each counts as the largest file that may be, but
// together they count no more than what is gone from the file system and found
// nowhere else.
func (d *disk) addMapped(ctx context.Context, use *diskUse, origin diskUse, kind int64, boxes []*box) error {
	hidden := space{1 << 62, 1 << 62}
	if kind == unix.EXT4_SUPER_MAGIC || kind == unix.XFS_SUPER_MAGIC { // whose free space is exact
		if origin.at.IsZero() {
			return nil
		}
		hidden = origin.free.minus(use.free).minus(use.total().minus(origin.total()))
		if hidden.bytes <= 0 && hidden.files <= 0 {
			return nil
		}
	}
	for _, x := range boxes {
		m := &mappings{found: map[string]bool{}}
		if err := eachTask(ctx, x, func(task string) error { return m.task(ctx, task) }); err != nil {
			return err
		}
		if n := int64(len(m.found)); n > 0 && !x.w.gone() {
			use.holders = append(use.holders, x)
			use.held.files += n
			use.held.bytes += min(max(0, hidden.bytes), n*x.limits.FileBytes)
			hidden.bytes -= n * x.limits.FileBytes
		}
	}
	return nil
}

// mappings are deleted files of one file system that are mapped, by inode.
type mappings struct{ found map[string]bool }

// task reads the mappings of one thread. Those of all threads of a process are
// the same, but a thread that has ended shows none.
func (m *mappings) task(ctx context.Context, task string) error {
	dev, err := workspaceDev(task)
	if err != nil || dev == "" {
		return err
	}
	f, err := os.Open(task + "/maps")
	if err != nil {
		return err
	}
	defer f.Close()
	r := bufio.NewReaderSize(f, 64<<10)
	for n := 0; ; n++ {
		line, err := r.ReadSlice('\n')
		if len(line) > 0 {
			m.line(line, dev)
		}
		if err == nil || errors.Is(err, bufio.ErrBufferFull) {
			if n%1024 == 0 && ctx.Err() != nil {
				return ctx.Err()
			}
			continue
		}
		return nil
	}
}

var deleted = []byte(" (deleted)\n")

// line reads "from-to perms offset dev inode path (deleted)".
func (m *mappings) line(line []byte, dev string) {
	if !bytes.HasSuffix(line, deleted) {
		return
	}
	if f := bytes.Fields(line); len(f) > 5 && string(f[3]) == dev {
		m.found[string(f[4])] = true
	}
}

// workspaceDev returns the device of /workspace as mappings show it, which need
// not be what stat says.
func workspaceDev(task string) (string, error) {
	b, err := os.ReadFile(task + "/mountinfo")
	if err != nil {
		return "", err
	}
	for line := range bytes.Lines(b) {
		if f := bytes.Fields(line); len(f) > 4 && string(f[4]) == "/workspace" {
			major, minor, _ := bytes.Cut(f[2], []byte(":"))
			a, err1 := strconv.ParseUint(string(major), 10, 32)
			i, err2 := strconv.ParseUint(string(minor), 10, 32)
			return fmt.Sprintf("%02x:%02x", a, i), errors.Join(err1, err2)
		}
	}
	return "", nil
}
