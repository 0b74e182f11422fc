package workspace

import (
	"context"
	"errors"
	"io"
	"os"
	"unicode/utf8"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// Limits of a page, in bytes.
const (
	DefaultPage = 256 << 10
	MaxPage     = 8 << 20
)

// Page is a part of a file.
type Page struct {
	Content []byte
	Offset  int64 // of Content in the file
	Size    int64 // of the whole file, in bytes
	Next    int64 // offset of the next page; 0 for the last page
}

// Read returns up to limit bytes of the file from offset. A limit of 0 means DefaultPage; the
// maximum is MaxPage. A page of UTF-8 text ends at a character boundary.
func (f *Files) Read(ctx context.Context, name string, offset, limit int64) (Page, error) {
	p, err := cleanFile(name)
	if err != nil {
		return Page{}, err
	}
	if limit, err = pageBounds(offset, limit); err != nil {
		return Page{}, err
	}
	if err := ctx.Err(); err != nil {
		return Page{}, err
	}
	d, rel, err := f.locate(p)
	if err != nil {
		return Page{}, err
	}
	file, err := d.openFile(rel)
	if err != nil {
		return Page{}, explain(name, err)
	}
	defer file.Close()
	page, err := readPage(file, offset, limit)
	if err != nil {
		return Page{}, explain(name, err)
	}
	if offset > page.Size {
		return Page{}, fault.New(fault.Invalid, "offset %d is beyond the end of %s, which has %d bytes", offset, fault.Quoted(name),
			page.Size)
	}
	return page, nil
}

func pageBounds(offset, limit int64) (int64, error) {
	switch {
	case offset < 0:
		return 0, fault.New(fault.Invalid, "offset %d is not allowed: offsets count bytes from 0", offset)
	case limit < 0:
		return 0, fault.New(fault.Invalid, "limit %d is not allowed: use 1 to %d bytes, or 0 for %d", limit, MaxPage, DefaultPage)
	case limit == 0:
		return DefaultPage, nil
	}
	return min(limit, MaxPage), nil
}

// readPage reads a few bytes beyond limit, to detect a character that the limit would split.
func readPage(file *os.File, offset, limit int64) (Page, error) {
	fi, err := file.Stat()
	if err != nil {
		return Page{}, err
	}
	page := Page{Offset: offset, Size: fi.Size()}
	buf := make([]byte, min(limit+utf8.UTFMax-1, max(0, page.Size-offset)))
	n, err := file.ReadAt(buf, offset)
	if err != nil && !errors.Is(err, io.EOF) { // a file may shrink while it is read
		return Page{}, err
	}
	page.Content = buf[:textEnd(buf[:n], int(limit))]
	if end := offset + int64(len(page.Content)); end < page.Size && len(page.Content) > 0 {
		page.Next = end
	}
	return page, nil
}

// textEnd returns the length of the page in b: limit, or less if b is text and limit would split
// a character. A page has at least one character.
func textEnd(b []byte, limit int) int {
	if len(b) <= limit {
		return len(b)
	}
	start := limit // of the character that limit would split, if any
	for start > 0 && limit-start < utf8.UTFMax-1 && !utf8.RuneStart(b[start]) {
		start--
	}
	r, size := utf8.DecodeRune(b[start:])
	switch {
	case start == limit || r == utf8.RuneError && size <= 1 || start+size <= limit:
		return limit
	case start == 0:
		return size
	}
	return start
}
