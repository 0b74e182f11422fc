// Package appendlog stores frames in a file to which one process appends, as a faster first place
// for what a database stores later.
//
// A frame is the payload of one Append: it is read as a whole or not at all. Frames have numbers
// without gaps. A checksum of a salt of the file, the number and the payload detects torn and damaged
// frames. The file is written in chunks and from its beginning again after Reset, so that most syncs write
// no metadata: what follows the last frame is zeros, or frames with smaller numbers.
//
// A Log holds a lock on its file until it is closed, or its process ends. The file is never continued
// by another process: Read returns its frames, at any time, and Claim tells whether it can be removed.
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
	head header

	turn  sync.Mutex // held by the sync that runs
	named bool       // the file's name is on disk

	mu     sync.Mutex
	last   int64 // number of the last frame
	synced int64 // number of the last frame that is on disk
	end    int64 // offset after the last frame
	size   int64 // of the file
	failed error // what is on disk is not known, or the file is closed
	due    *time.Timer
	timers sync.WaitGroup
}

// Create creates a file with mode 0600, which must not exist, and locks it.
func Create(path string) (*Log, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	l := &Log{lock: flock.New(path, flock.SetFlag(os.O_RDWR)), file: f, head: newHeader()}
	ok, err := l.lock.TryLock()
	if !ok || !named(l.lock, path) {
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

// Sync returns when all frames that were appended before are on disk. After an error, it is not known
// which ones are, and the Log is unusable.
func (l *Log) Sync() error {
	want := l.Last()
	l.turn.Lock()
	defer l.turn.Unlock()
	l.mu.Lock()
	last, done, failed := l.last, l.synced >= want, l.failed
	l.mu.Unlock()
	if failed != nil || done {
		return failed
	}
	err := datasync(l.file)
	if err == nil && !l.named {
		err = durable.SyncDir(filepath.Dir(l.lock.Path()))
		l.named = err == nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.failed = fmt.Errorf("sync the log of calls: %w", err)
		return l.failed
	}
	l.synced = max(l.synced, last)
	return nil
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

// Size returns the number of bytes up to the end of the last frame.
func (l *Log) Size() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.end
}

// Reset forgets all frames if last is the number of the last one: they are not needed any more, also
// after a loss of power. The next frame is written at the beginning of the file.
func (l *Log) Reset(last int64) {
	l.turn.Lock() // a sync that fails later makes the Log unusable
	defer l.turn.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.last != last || l.failed != nil || l.end == 0 {
		return
	}
	l.end, l.synced = headerSize, last
	if l.size > kept && l.file.Truncate(chunk) == nil {
		l.size = chunk
	}
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
	l.turn.Lock()
	defer l.turn.Unlock()
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
