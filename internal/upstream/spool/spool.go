// Package spool keeps content that is too large for memory in files without a name.
//
// A crash releases them. A Spool is safe for concurrent use, a File is not.
package spool

import (
	"errors"
	"os"
	"runtime"
	"sync/atomic"
)

// Spool makes files and bounds their size together.
type Spool struct {
	Dir string // parent of the files, created when needed; "" means the system's temporary directory
	Max int64  // bytes of all files together

	used atomic.Int64
}

// File is an unlinked file of a Spool.
type File struct {
	spool *Spool
	file  *os.File
	size  int64
	data  []byte // its content, once mapped
}

// Create returns a new file, or nil if there can be none.
func (s *Spool) Create() *File {
	if s == nil {
		return nil
	}
	if s.Dir != "" && os.MkdirAll(s.Dir, 0o700) != nil {
		return nil
	}
	f, err := os.CreateTemp(s.Dir, "answer-")
	if err != nil {
		return nil
	}
	_ = os.Remove(f.Name()) // the space is released when the file is closed, at the latest by a crash
	file := &File{spool: s, file: f}
	runtime.SetFinalizer(file, (*File).Close) // for a file that its owner forgot
	return file
}

var errSpoolFull = errors.New("large answers together exceed the limit")

// Write implements io.Writer.
func (f *File) Write(p []byte) (int, error) {
	if f.spool.used.Add(int64(len(p))) > f.spool.Max {
		f.spool.used.Add(-int64(len(p)))
		return 0, errSpoolFull
	}
	f.size += int64(len(p))
	return f.file.Write(p)
}

// Content returns the content of the file, which is valid until Close. The kernel reads it
// when it is needed and may drop it from memory at any time.
func (f *File) Content() (data []byte, err error) {
	if f.data == nil && f.size > 0 {
		f.data, err = mapFile(f.file, int(f.size))
	}
	return f.data, err
}

// Close releases the file and its content.
func (f *File) Close() {
	runtime.SetFinalizer(f, nil)
	if f.data != nil {
		unmapFile(f.data)
	}
	_ = f.file.Close() // an error changes nothing: the content is discarded
	f.spool.used.Add(-f.size)
	f.data, f.size = nil, 0
}
