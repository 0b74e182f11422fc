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
)

// The format of a write-ahead log: https://www.sqlite.org/fileformat2.html#walformat
const (
	walHeader   = 32
	frameHeader = 24
	walMagic    = 0x377f0682 // the lowest bit is the byte order of the checksums
)

// checkLog refuses a write-ahead log with a damaged frame before a committed one.
// SQLite treats the first invalid frame as the end of the log and silently drops the
// rest. A crash also leaves an invalid frame at the end, but no commit after it.
// Another process may be writing the log, so the check is repeated before it fails.
func checkLog(path string) error {
	for try := 0; ; try++ {
		damaged, err := damagedLog(path)
		if err != nil || !damaged {
			return err
		}
		if try == 5 {
			return proven(nil, "the write-ahead log of the database is damaged before committed changes").
				WithHint("restore the database and its -wal file from a backup, or keep only the readable part: sqlite3 tenant.db " +
					"'PRAGMA wal_checkpoint(TRUNCATE)' && rm -f tenant.db.end")
		}
		<-time.After(20 * time.Millisecond)
	}
}

func damagedLog(path string) (bool, error) {
	f, err := os.Open(path) // closing it releases no lock: SQLite's locks are on the other files
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, creationFault(err)
	}
	defer f.Close()
	before, after := make([]byte, walHeader), make([]byte, walHeader)
	if _, err := f.ReadAt(before, 0); err != nil {
		return false, ignoreEOF(err) // without frames
	}
	damaged, err := scanLog(bufio.NewReaderSize(f, 1<<20))
	if err == nil && damaged { // or a process began to write the log from its start
		_, err = f.ReadAt(after, 0)
		damaged = bytes.Equal(before, after)
	}
	return damaged, ignoreEOF(err)
}

// checksum is SQLite's checksum over pairs of 32-bit words.
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

// equal reports whether the checksum equals the stored one.
func (c *checksum) equal(b []byte) bool {
	return binary.BigEndian.Uint32(b) == c.s0 && binary.BigEndian.Uint32(b[4:]) == c.s1
}

// set sets the checksum to a stored one.
func (c *checksum) set(b []byte) {
	c.s0, c.s1 = binary.BigEndian.Uint32(b), binary.BigEndian.Uint32(b[4:])
}

// scanLog reports whether a damaged frame precedes a transaction that SQLite wrote after
// the commit of the damaged one. A commit alone proves nothing: SQLite writes the commit
// frame of a large transaction before it corrects the checksums of frames that it wrote
// twice, and a crash in between leaves an invalid frame before an unfinished commit.
// Frames of a rolled back transaction or of an earlier use of the file are not damage.
func scanLog(r io.Reader) (bool, error) {
	head := make([]byte, walHeader)
	if _, err := io.ReadFull(r, head); err != nil {
		return false, ignoreEOF(err)
	}
	sum := checksum{order: binary.LittleEndian}
	magic, size := binary.BigEndian.Uint32(head), binary.BigEndian.Uint32(head[8:])
	if magic&1 != 0 {
		sum.order = binary.BigEndian
	}
	sum.add(head[:24])
	if magic&^1 != walMagic || size < 512 || size > 65536 || !sum.equal(head[24:]) {
		n, err := io.CopyN(io.Discard, r, frameHeader+512)
		return n == frameHeader+512, ignoreEOF(err) // a header alone contains no data
	}
	frame := make([]byte, frameHeader+size)
	for damaged, commit := false, false; ; {
		if _, err := io.ReadFull(r, frame); err != nil {
			return false, ignoreEOF(err)
		}
		current := bytes.Equal(frame[8:16], head[16:24]) // the salts differ at each use of the file
		if !current && !damaged {
			damaged = true // or the end of the log: then no current frame follows
			sum.set(frame[16:])
			continue
		}
		sum.add(frame[:8])
		sum.add(frame[frameHeader:])
		valid := current && sum.equal(frame[16:])
		if commit && valid {
			return true, nil
		}
		commit = damaged && valid && binary.BigEndian.Uint32(frame[4:]) != 0
		if !valid {
			damaged = true
			sum.set(frame[16:]) // the checksum chain may continue from here
		}
	}
}

func ignoreEOF(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil
	}
	return err
}
