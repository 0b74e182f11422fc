package quota

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

// deletedFiles are the files without a name that processes of sandboxes hold open.
type deletedFiles struct {
	open    space
	holders []*Member
	dev     uint64
	seen    map[uint64]bool // inodes
}

// findDeletedFiles adds up the deleted files in the file system of dir that processes
// of members have open or use as working directory or root.
func findDeletedFiles(ctx context.Context, dir string, members []*Member) (*deletedFiles, error) {
	h := &deletedFiles{seen: map[uint64]bool{}}
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		return h, err
	}
	h.dev = st.Dev
	for _, x := range members {
		own := &deletedFiles{dev: h.dev, seen: map[uint64]bool{}}
		if err := forEachTask(ctx, x, own.task); err != nil {
			return h, err
		}
		if len(own.seen) == 0 || x.HasExited() {
			continue
		}
		h.holders = append(h.holders, x)
		h.open = h.open.plus(own.open)
	}
	return h, nil
}

// forEachTask calls f with the /proc directory of each thread in a sandbox. A thread
// that ends during the call is not an error.
func forEachTask(ctx context.Context, x *Member, f func(task string) error) error {
	for _, pid := range x.Processes() {
		tasks := "/proc/" + strconv.Itoa(pid) + "/task/"
		threads, _ := os.ReadDir(tasks)
		for _, t := range threads {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := f(tasks + t.Name()); err != nil && !isExited(err) {
				return err
			}
		}
	}
	return nil
}

// isExited reports whether err means that a process has ended.
func isExited(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) }

// task counts the files of one thread, which may have its own descriptor table.
func (h *deletedFiles) task(task string) error {
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

func (h *deletedFiles) count(link string) {
	var st unix.Stat_t
	if unix.Stat(link, &st) != nil || st.Nlink > 0 || st.Dev != h.dev || h.seen[st.Ino] {
		return
	}
	h.seen[st.Ino] = true
	h.open = h.open.plus(space{st.Blocks * 512, 1})
}

// addMapped counts deleted files that are mapped and no longer open. Only root can
// read their size: each counts as the largest allowed file, but together they count
// at most the space that is missing from the file system and not found elsewhere.
func (d *disk) addMapped(ctx context.Context, use *diskUse, origin diskUse, kind int64, members []*Member) error {
	hidden := space{1 << 62, 1 << 62}
	if kind == unix.EXT4_SUPER_MAGIC || kind == unix.XFS_SUPER_MAGIC { // these report exact free space
		if origin.at.IsZero() {
			return nil
		}
		hidden = origin.free.minus(use.free).minus(use.total().minus(origin.total()))
		if hidden.bytes <= 0 && hidden.files <= 0 {
			return nil
		}
	}
	for _, x := range members {
		m := &mappings{found: map[string]bool{}}
		if err := forEachTask(ctx, x, func(task string) error { return m.task(ctx, task) }); err != nil {
			return err
		}
		if n := int64(len(m.found)); n > 0 && !x.HasExited() {
			use.holders = append(use.holders, x)
			use.deleted.files += n
			use.deleted.bytes += min(max(0, hidden.bytes), n*x.limits.FileBytes)
			hidden.bytes -= n * x.limits.FileBytes
		}
	}
	return nil
}

// mappings are the mapped deleted files of one file system, by inode.
type mappings struct{ found map[string]bool }

// task reads the mappings of one thread. All threads of a process have the same, but
// a thread that has ended lists none.
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

// line parses "from-to perms offset dev inode path (deleted)".
func (m *mappings) line(line []byte, dev string) {
	if !bytes.HasSuffix(line, deleted) {
		return
	}
	if f := bytes.Fields(line); len(f) > 5 && string(f[3]) == dev {
		m.found[string(f[4])] = true
	}
}

// workspaceDev returns the device of /workspace in the format of mappings, which may
// differ from the device that stat returns.
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
