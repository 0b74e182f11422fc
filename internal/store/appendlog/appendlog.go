// Package appendlog stores frames in a file to which one process appends, as a faster first place
// for data that a database stores later.
//
// A frame is the payload of one Append: it is read as a whole or not at all. Frames have numbers
// without gaps. A checksum of a salt of the file, the number and the payload detects torn and damaged
// frames. The file is written in chunks and from its beginning again after Reset, so that most syncs write
// no metadata: what follows the last frame is zeros, or frames with smaller numbers.
//
// A Log holds a lock on its file until it is closed, or its process ends. The file is never continued
// by another process: Read returns its frames, at any time, and Claim reports whether it can be removed.
// A Log is safe for concurrent use.
package appendlog

import (
	"cmp"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/gofrs/flock"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/store/durable"
)

const (
	// MaxSize bounds a file, in bytes.
	MaxSize = 128 << 20

	chunk     = 64 << 10 // by which a file grows
	kept      = 1 << 20  // Reset truncates a larger file
	syncDelay = 50 * time.Millisecond
)

// ErrFull is returned by Append if the file would exceed MaxSize.
var ErrFull = errors.New("the log of calls is full")

// Log is a file that this process appends to.
type Log struct {
	lock *flock.Flock
	file *os.File
	info os.FileInfo // of the file when it was created
	head header

	mu      sync.Mutex
	syncing bool       // a sync runs
	idle    *sync.Cond // of mu: no sync runs
	named   bool       // the file's name is on disk
	last    int64      // number of the last frame
	synced  int64      // number of the last frame that is on disk
	end     int64      // offset after the last frame
	size    int64      // of the file
	failed  error      // what is on disk is not known, or the file is closed
	due     *time.Timer
	timers  sync.WaitGroup
}

// Create creates a file with mode 0600, which must not exist, and locks it. The error is fs.ErrExist if it
// exists, or Claim of another process has found it before it was locked.
func Create(path string) (*Log, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	l := &Log{lock: flock.New(path, flock.SetFlag(os.O_RDWR)), file: f, head: newHeader()}
	l.idle = sync.NewCond(&l.mu)
	ok, err := l.lock.TryLock()
	if errors.Is(err, fs.ErrNotExist) { // it was removed
		err = nil
	}
	if l.info, _ = f.Stat(); !ok || !named(l.lock, path) {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", filepath.Base(path), cmp.Or(err, fs.ErrExist)), l.lock.Close(), f.Close())
	}
	return l, nil
}

// named reports whether the locked file has the name path; Claim may have removed it.
func named(lock *flock.Flock, path string) bool {
	locked, err1 := lock.Stat()
	found, err2 := os.Lstat(path)
	return err1 == nil && err2 == nil && os.SameFile(locked, found)
}

// Append writes a frame. It survives the end of this process when Append returns, and a loss of power
// after Sync. A frame whose Append failed is not read.
func (l *Log) Append(payload []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failed != nil {
		return l.failed
	}
	if now, err := os.Lstat(l.lock.Path()); err != nil || !os.SameFile(now, l.info) {
		return fault.New(fault.Unavailable, "the log of calls was deleted or replaced while it was open").
			WithHint("stop Sandpiper, restore the directory of the tenant, and start it again")
	}
	at := l.end
	b := make([]byte, 0, headerSize+frameSize+len(payload))
	if at == 0 {
		b = append(b, l.head[:]...)
	}
	b = l.head.frame(b, l.last+1, l.synced, payload)
	end := at + int64(len(b))
	if end > MaxSize {
		return ErrFull
	}
	if end > l.size {
		b = append(b, make([]byte, -end&(chunk-1))...)
	}
	if _, err := l.file.WriteAt(b, at); err != nil {
		if l.size = at; l.file.Truncate(at) != nil {
			l.failed = err
		}
		return fmt.Errorf("append to the log of calls: %w", err)
	}
	l.last, l.end, l.size = l.last+1, end, max(l.size, at+int64(len(b)))
	return nil
}

// Sync returns when all frames that were appended before are on disk, or were forgotten by Reset. After an
// error, it is not known which ones are on disk, and the Log is unusable.
func (l *Log) Sync() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for want := l.last; l.synced < want; { // callers that wait for a sync share the next one
		switch {
		case l.failed != nil:
			return l.failed
		case l.syncing:
			l.idle.Wait()
		default:
			l.syncNow()
		}
	}
	return nil
}

// syncNow syncs the frames that there are. The caller holds the lock, which is released during the sync.
func (l *Log) syncNow() {
	last, named := l.last, l.named
	l.syncing = true
	l.mu.Unlock()
	err := datasync(l.file)
	if err == nil && !named {
		err = durable.SyncDir(filepath.Dir(l.lock.Path()))
	}
	l.mu.Lock()
	l.syncing = false
	l.idle.Broadcast()
	if err != nil {
		l.failed = fmt.Errorf("sync the log of calls: %w", err)
		return
	}
	l.named, l.synced = true, max(l.synced, last)
}

// lockIdle locks l when no sync runs.
func (l *Log) lockIdle() {
	for l.mu.Lock(); l.syncing; {
		l.idle.Wait()
	}
}

// SyncLater calls Sync within 50 milliseconds. The next Append or Sync returns its error.
func (l *Log) SyncLater() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.due != nil || l.failed != nil {
		return
	}
	l.timers.Add(1)
	l.due = time.AfterFunc(syncDelay, func() {
		defer l.timers.Done()
		l.mu.Lock()
		l.due = nil
		l.mu.Unlock()
		_ = l.Sync()
	})
}

// Last returns the number of the last frame; the first one is 1.
func (l *Log) Last() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last
}

// Size returns the number of bytes of the frames since Reset.
func (l *Log) Size() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return max(0, l.end-headerSize)
}

// Reset forgets all frames, and reports whether last is the number of the last one; otherwise it does
// nothing. They are not needed any more, also after a loss of power. The next frame is written at the
// beginning of the file.
func (l *Log) Reset(last int64) bool {
	l.lockIdle() // a sync that fails later makes the Log unusable
	defer l.mu.Unlock()
	if l.last != last {
		return false
	}
	l.end, l.synced = min(l.end, headerSize), last
	if l.size > kept && l.failed == nil && l.file.Truncate(chunk) == nil {
		l.size = chunk
	}
	return true
}

// Usable reports whether Append can succeed.
func (l *Log) Usable() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failed == nil
}

var errClosed = errors.New("the log of calls is closed")

// Close closes the file. It is idempotent.
func (l *Log) Close() error { return l.close(func() error { return nil }) }

// Remove removes and closes the file.
func (l *Log) Remove() error {
	return l.close(func() error { return os.Remove(l.lock.Path()) })
}

func (l *Log) close(first func() error) error {
	l.mu.Lock()
	again := l.failed == errClosed
	l.failed = errClosed
	if l.due != nil && l.due.Stop() {
		l.timers.Done()
	}
	l.mu.Unlock()
	if again {
		return nil
	}
	l.timers.Wait()
	l.lockIdle()
	defer l.mu.Unlock()
	return errors.Join(first(), l.file.Close(), l.lock.Close())
}

// Claim locks a file whose Log was closed, or whose process ended, and returns a function that removes
// it; nil if the Log is in use.
func Claim(path string) (remove func(bool) error) {
	lock := flock.New(path, flock.SetFlag(os.O_RDWR))
	if ok, err := lock.TryLock(); err != nil || !ok {
		_ = lock.Close()
		return nil
	}
	return func(really bool) error {
		if !really || !named(lock, path) {
			return lock.Close()
		}
		return errors.Join(os.Remove(path), lock.Close())
	}
}

const (
	headerSize = 16
	frameSize  = 8 + 8 + 4 + 4
	magic      = "SPDRLOG1"
)

// header begins a file: the magic, a salt, and their checksum.
type header [headerSize]byte

func newHeader() (h header) {
	copy(h[:], magic)
	_, _ = rand.Read(h[8:12]) // never fails
	binary.LittleEndian.PutUint32(h[12:], checksum(0, h[:12]))
	return h
}

func (h header) valid() bool {
	return string(h[:8]) == magic && binary.LittleEndian.Uint32(h[12:]) == checksum(0, h[:12])
}

// frame appends a frame to b: its number, the number of the last frame that was on disk before, its
// length, and the checksum of all that.
func (h header) frame(b []byte, number, synced int64, payload []byte) []byte {
	at := len(b)
	b = binary.LittleEndian.AppendUint64(b, uint64(number))
	b = binary.LittleEndian.AppendUint64(b, uint64(synced))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(payload)))
	sum := checksum(checksum(h.salt(), b[at:]), payload)
	return append(binary.LittleEndian.AppendUint32(b, sum), payload...)
}

func (h header) salt() uint32 { return binary.LittleEndian.Uint32(h[8:]) }

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func checksum(sum uint32, b []byte) uint32 { return crc32.Update(sum, castagnoli, b) }
