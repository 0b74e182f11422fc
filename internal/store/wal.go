package store

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// The format of a write-ahead log: https://www.sqlite.org/fileformat2.html#walformat
const (
	walHeader   = 32
	frameHeader = 24
	walMagic    = 0x377f0682 // the lowest bit says which byte order checksums have
)

// checkLog refuses a write-ahead log that is damaged in front of something that was
// committed. SQLite takes the first frame that it cannot read for the end of the log,
// and drops what follows without a word: a crash leaves such an end, but no commit
// behind it. Another process may be writing, so that damage is looked for again.
func checkLog(path string) error {
	for try := 0; ; try++ {
		damaged, err := damagedLog(path)
		if err != nil || !damaged {
			return err
		}
		if try == 5 {
			return fault.New(fault.Internal, "the write-ahead log of the database is damaged, in front of changes that were committed").
				WithHint("restore the database and its -wal file from a backup, or go on with what can be read: sqlite3 tenant.db 'PRAGMA wal_checkpoint(TRUNCATE)'")
		}
		<-time.After(20 * time.Millisecond)
	}
}

func damagedLog(path string) (bool, error) {
	f, err := os.Open(path) // closing it drops no lock: SQLite holds them on other files
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, creationFault(err)
	}
	defer f.Close()
	return scanLog(bufio.NewReaderSize(f, 1<<20))
}

// checksum is that of SQLite, over pairs of words.
type checksum struct {
	order  binary.ByteOrder
	s0, s1 uint32
}

func (c *checksum) add(b []byte) {
	for ; len(b) >= 8; b = b[8:] {
		c.s0 += c.order.Uint32(b) + c.s1
		c.s1 += c.order.Uint32(b[4:]) + c.s0
	}
}

// is reports whether two stored words are the sum; take makes them the sum.
func (c *checksum) is(b []byte) bool {
	return binary.BigEndian.Uint32(b) == c.s0 && binary.BigEndian.Uint32(b[4:]) == c.s1
}

func (c *checksum) take(b []byte) {
	c.s0, c.s1 = binary.BigEndian.Uint32(b), binary.BigEndian.Uint32(b[4:])
}

// scanLog reports whether a frame that was committed follows one that is damaged.
// What was rolled back, or belongs to an earlier use of the file, is no damage.
func scanLog(r io.Reader) (bool, error) {
	head := make([]byte, walHeader)
	if _, err := io.ReadFull(r, head); err != nil {
		return false, short(err)
	}
	sum := checksum{order: binary.LittleEndian}
	magic, size := binary.BigEndian.Uint32(head), binary.BigEndian.Uint32(head[8:])
	if magic&1 != 0 {
		sum.order = binary.BigEndian
	}
	sum.add(head[:24])
	if magic&^1 != walMagic || size < 512 || size > 65536 || !sum.is(head[24:]) {
		n, err := io.CopyN(io.Discard, r, frameHeader+512)
		return n == frameHeader+512, short(err) // a header alone holds nothing
	}
	frame := make([]byte, frameHeader+size)
	for damaged := false; ; {
		if _, err := io.ReadFull(r, frame); err != nil {
			return false, short(err)
		}
		ours := bytes.Equal(frame[8:16], head[16:24]) // the salts, which are others at each use of the file
		if !ours && !damaged {
			damaged = true // or the end: then nothing of ours follows
			sum.take(frame[16:])
			continue
		}
		sum.add(frame[:8])
		sum.add(frame[frameHeader:])
		whole := ours && sum.is(frame[16:])
		committed := binary.BigEndian.Uint32(frame[4:]) != 0
		if damaged && whole && committed {
			return true, nil
		}
		if !whole {
			damaged = true
			sum.take(frame[16:]) // a chain may go on from here
		}
	}
}

func short(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil
	}
	return err
}
