package store

import (
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// A commit that is only in the write-ahead log is lost if the log is deleted or cut, and SQLite then
// opens what is left. So each commit stores its number in the database and, once it is on disk, in a
// separate file: the end of the log. A database with a smaller number has lost commits, even if
// another process has moved the log into the database since. A loss of power may take commits that were not
// synced, which the file does not contain: a log that is deleted within syncDelay of a commit that
// does not wait for the disk is not missed. The numbers grow, and are the Unix time in nanoseconds
// unless the clock was put back.
const (
	commitsTable = "CREATE TABLE commits (n INTEGER NOT NULL) STRICT"
	selectCommit = "SELECT coalesce(max(n), 0) FROM commits"
)

// maxCommit is the largest number, that of the year 2200. A larger one was not written by this program,
// and the numbers would end.
const maxCommit = 7258118400e9

// validCommit returns 0 for a number that no commit has.
func validCommit(n int64) int64 {
	if n < 0 || n >= maxCommit {
		return 0
	}
	return n
}

const (
	endMagic = "SPDREND1"
	endSize  = 8 + 8 + 4
)

func encodeEnd(n int64) []byte {
	b := append(make([]byte, 0, endSize), endMagic...)
	b = binary.LittleEndian.AppendUint64(b, uint64(n))
	return binary.LittleEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
}

// decodeEnd returns 0, which requires nothing, for content that a crash has left incomplete.
func decodeEnd(b []byte) int64 {
	if len(b) != endSize || string(b[:8]) != endMagic || crc32.ChecksumIEEE(b[:16]) != binary.LittleEndian.Uint32(b[16:]) {
		return 0
	}
	return validCommit(int64(binary.LittleEndian.Uint64(b[8:])))
}

func endPath(path string) string { return path + ".end" }

func readEnd(path string) (int64, error) {
	b, err := os.ReadFile(endPath(path))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, creationFault(err)
	}
	return decodeEnd(b), nil
}

// checkEnd fails if the database has lost commits. It changes neither the database nor its log.
func checkEnd(ctx context.Context, path string) error {
	want, err := readEnd(path) // before the database: other processes may commit
	if err != nil || want == 0 {
		return err
	}
	connector, err := sqlite.NewConnector(location(path) + "?mode=ro&_pragma=busy_timeout(5000)") // does not checkpoint when it is closed
	if err != nil {
		return fault.Wrap(fault.Internal, err, "the database path is not usable")
	}
	db := sql.OpenDB(connector)
	var have int64
	err = db.QueryRowContext(ctx, selectCommit).Scan(&have)
	if code(err) == sqlite3.SQLITE_ERROR {
		err = nil // there is no such table
	}
	have = validCommit(have)
	if err := errors.Join(err, db.Close()); err != nil {
		if shortage := descriptorShortage(); cannotOpen(err) && shortage != nil {
			return shortage
		}
		return explain(err)
	}
	if have < want {
		return lostFault(path, have)
	}
	return nil
}

func lostFault(path string, have int64) error {
	what := "changes are lost"
	if have > 0 {
		what = "changes after " + time.Unix(0, have).UTC().Format(time.DateTime) + " UTC are lost"
	}
	return proven(nil, "the write-ahead log of the database was deleted or cut: %s", what).
		WithHint("put the -wal file back or restore the database from a backup; to continue with what is left, delete %s",
			filepath.Base(endPath(path)))
}

// ender writes the file of a database. Errors are ignored: the file remains older than the database,
// so that fewer losses are found.
type ender struct {
	path string

	mu     sync.Mutex
	last   int64 // the last commit
	synced int64 // the last commit that is on disk
	// foreign is set by a commit that does not follow one of this process.
	foreign bool
}

// followed reports whether commits until the one with a number, or some before the last one of this process, may be
// those of other processes, since the last call.
func (w *ender) followed(n int64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	foreign := w.foreign || n != w.last
	w.foreign, w.last = false, max(w.last, n)
	return foreign
}

// committed returns the number of the last commit.
func (w *ender) committed() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.last
}

// commit records that a commit has taken effect.
func (w *ender) commit(n int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last = max(w.last, n)
}

// sync records that a commit, and all before it, are on disk. The file may contain a newer one of
// another process.
func (w *ender) sync(n int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if n <= w.synced {
		return
	}
	w.synced = n
	f, err := os.OpenFile(w.path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return
	}
	defer f.Close()
	b := make([]byte, endSize)
	if size, _ := f.ReadAt(b, 0); size == endSize {
		w.synced = max(w.synced, decodeEnd(b))
	}
	_, _ = f.WriteAt(encodeEnd(w.synced), 0)
}

// finish resets the end if the log was moved into the database and deleted.
func (w *ender) finish() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, err := os.Lstat(strings.TrimSuffix(w.path, ".end") + "-wal"); !errors.Is(err, fs.ErrNotExist) {
		return
	}
	f, err := os.OpenFile(w.path, os.O_WRONLY, 0)
	if err != nil {
		return
	}
	defer f.Close()
	_, _ = f.WriteAt(encodeEnd(0), 0)
}
