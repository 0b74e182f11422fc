package workspace

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// Quota limits the content of a workspace. A zero field means no limit.
type Quota struct {
	Bytes int64 `key:"max_mb,tenant" form:"megabytes" range:"1 16777216" default:"2048" project:"lower"` // on disk
	// names of files, links and directories
	Files int64 `key:"max_files,tenant" range:"100 1073741824" default:"100000" project:"lower"`
	// bytes to keep free on the file system, for databases
	Reserve int64 `key:"reserve_mb" form:"megabytes" range:"0 16777216" default:"512"`
}

// measurementTTL is how long a measurement is used for later writes.
const measurementTTL = time.Second

// account compares the usage of a workspace, according to the last measurement and the writes since, with
// its quota.
type account struct {
	quota   Quota
	refused func(key string) // see Config
	usage   func(context.Context) (Usage, error)
	free    func() (int64, error) // bytes of the file system

	mu       sync.Mutex
	measured time.Time // zero before the first measurement
	used     Usage     // as measured, plus what was written since
	pending  amount    // by writes in progress
}

type amount struct{ bytes, files int64 }

// blockSize is the allocation unit of the file system, or a multiple of it.
const blockSize = 4096

func blocksFor(size int64) int64 { return (size + blockSize - 1) / blockSize * blockSize }

// Reserve reserves bytes and files of the quota until done is called. The error is Exhausted if
// they exceed the quota, and Unavailable if the disk of the machine is nearly full.
func (a *account) Reserve(ctx context.Context, bytes, files int64) (done func(), err error) {
	more := amount{max(0, bytes), max(0, files)}
	if more == (amount{}) {
		return func() {}, nil
	}
	if err := a.CheckReserve(more.bytes); err != nil {
		return nil, err
	}
	if a.quota.Bytes == 0 && a.quota.Files == 0 {
		return func() {}, nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	fresh := time.Since(a.measured) < measurementTTL
	if !fresh || a.quota.over(a.used, a.pending, more) {
		if err := a.measure(ctx); err != nil {
			return nil, err
		}
	}
	if a.quota.over(a.used, a.pending, more) {
		return nil, a.refuse(a.used, more)
	}
	a.pending.bytes, a.pending.files = a.pending.bytes+more.bytes, a.pending.files+more.files
	return sync.OnceFunc(func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.pending.bytes, a.pending.files = a.pending.bytes-more.bytes, a.pending.files-more.files
		a.used.Bytes, a.used.Files = a.used.Bytes+more.bytes, a.used.Files+more.files
	}), nil
}

// measure updates the account. The caller holds its lock.
func (a *account) measure(ctx context.Context) error {
	began := time.Now()
	u, err := a.usage(ctx)
	if err == nil {
		a.used, a.measured = u, began
	}
	return err
}

func (q Quota) over(u Usage, pending, more amount) bool {
	return q.Bytes > 0 && u.Bytes+pending.bytes+more.bytes > q.Bytes ||
		q.Files > 0 && u.Files+u.Dirs+pending.files+more.files > q.Files
}

// CheckQuota returns an error if code may not add to the workspace, because its quota is exceeded or
// the disk of the machine is nearly full. It measures at the first call, and at each call while the
// quota is exceeded.
func (a *account) CheckQuota(ctx context.Context) error {
	if err := a.CheckReserve(0); err != nil {
		return err
	}
	if a.quota.Bytes == 0 && a.quota.Files == 0 {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.measured.IsZero() || a.quota.over(a.used, amount{}, amount{}) {
		if err := a.measure(ctx); err != nil {
			return err
		}
	}
	if a.quota.over(a.used, amount{}, amount{}) {
		return a.quota.reached(a.used, amount{})
	}
	return nil
}

// QuotaExceeded measures the workspace and describes its usage, for an execution that was ended or
// whose write failed because of it, and counts that refusal. Later calls of CheckQuota use the measurement.
func (a *account) QuotaExceeded(ctx context.Context) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.measure(ctx); err != nil {
		return err
	}
	over := a.refuse(a.used, amount{})
	if !a.quota.over(a.used, amount{}, amount{}) {
		over.Message += "; more was in deleted files that the code held open, and is free again"
	}
	return over
}

// CheckReserve returns an error if writing more bytes would leave less free disk space than the
// reserve.
func (a *account) CheckReserve(more int64) error {
	if a.quota.Reserve == 0 {
		return nil
	}
	free, err := a.free()
	if err != nil {
		return explain(".", err)
	}
	if free-more >= a.quota.Reserve {
		return nil
	}
	return nearlyFull(free)
}

// NearlyFull returns the error for a disk whose free space is below the reserve.
func (a *account) NearlyFull() error {
	free, err := a.free()
	if err != nil {
		return explain(".", err)
	}
	return nearlyFull(free)
}

func nearlyFull(free int64) error {
	return fault.New(fault.Unavailable, "the disk of the machine that runs Sandpiper is nearly full (%s free): nothing is written to "+
		"workspaces", bytesText(free)).
		WithHint("this is not your quota: ask the operator to free disk space")
}

// refuse counts a refusal and returns its error.
func (a *account) refuse(u Usage, more amount) *fault.Error {
	if a.refused != nil {
		a.refused(a.quota.key(u, more))
	}
	return a.quota.reached(u, more)
}

// key returns the key of the quota that is reached.
func (q Quota) key(u Usage, more amount) string {
	if q.Files > 0 && (q.Bytes == 0 || u.Bytes+more.bytes <= q.Bytes && u.Files+u.Dirs+more.files > q.Files) {
		return "workspace.max_files"
	}
	return "workspace.max_mb"
}

// reached returns the error for a quota that is reached.
func (q Quota) reached(u Usage, more amount) *fault.Error {
	var message strings.Builder
	message.WriteString("the workspace quota is reached: ")
	of := func(limit int64, text string) string {
		if limit == 0 {
			return ""
		}
		return " of " + text
	}
	fmt.Fprintf(&message, "%s%s and %d%s files and directories are used", bytesText(u.Bytes), of(q.Bytes, bytesText(q.Bytes)),
		u.Files+u.Dirs, of(q.Files, fmt.Sprint(q.Files)))
	if more.bytes > 0 {
		fmt.Fprintf(&message, "; %s more do not fit", bytesText(more.bytes))
	}
	if len(u.Largest) > 0 {
		message.WriteString("; largest: ")
		for i, l := range u.Largest {
			if i > 0 {
				message.WriteString(", ")
			}
			fmt.Fprintf(&message, "%.80q (%s)", l.Name, bytesText(l.Bytes))
		}
	}
	return fault.New(fault.Exhausted, "%s", message.String()).
		WithHint("delete files that are not needed with delete_file, or write less; the operator can raise %s", q.key(u, more))
}

// File is a file of a Usage.
type File struct {
	Name  string
	Bytes int64 // on disk
}

// maxLargest is the number of files in Usage.Largest.
const maxLargest = 5

// largest collects the largest files.
type largest []File

func (l *largest) add(e entry, name func() string) {
	if e.blocks == 0 || len(*l) == maxLargest && e.blocks <= (*l)[maxLargest-1].Bytes {
		return
	}
	at, _ := slices.BinarySearchFunc(*l, e.blocks, func(f File, n int64) int {
		if f.Bytes > n {
			return -1
		}
		return 1
	})
	*l = slices.Insert(*l, at, File{strings.ToValidUTF8(name(), "\uFFFD"), e.blocks})
	*l = (*l)[:min(len(*l), maxLargest)]
}

// additions returns the usage that writing size bytes to the file p would add. It creates
// nothing.
func (f *Files) additions(p string, size int64) (amount, error) {
	parent, base := path.Split(p)
	d, err := f.dirs.openDir(path.Clean(parent))
	if isNotExist(err) {
		return amount{blocksFor(size), int64(1 + strings.Count(p, "/"))}, nil
	}
	if err != nil {
		return amount{}, err
	}
	defer d.Close()
	if _, err := d.stat(base); isNotExist(err) {
		return amount{blocksFor(size), 1}, nil
	}
	old, err := replaceable(d, base)
	return amount{blocksFor(size) - old.blocks, 0}, err
}
