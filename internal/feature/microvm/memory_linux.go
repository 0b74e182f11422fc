//go:build amd64

package microvm

import (
	"bytes"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// The memory of a guest is a memfd, which virtiofsd maps too. QEMU does not write it to the
// snapshot of the devices (x-ignore-shared), and takes over the one of a restored guest as it
// is: loading memory from a snapshot would touch every page.

// extent is a part of a file.
type extent struct{ at, end int64 }

// newMemfd returns an empty file in memory.
func newMemfd() (*os.File, error) {
	fd, err := unix.MemfdCreate("microvm", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, fmt.Errorf("memfd_create: %w", err)
	}
	return os.NewFile(uintptr(fd), "memfd"), nil
}

// newMemory returns the empty memory of a guest.
func (b *Backend) newMemory() (*os.File, error) {
	f, err := newMemfd()
	if err != nil {
		return nil, err
	}
	if err := f.Truncate(b.memorySize); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// keepMemory copies the pages of a guest that are not zero to the snapshot.
func (b *Backend) keepMemory(from *os.File) error {
	buf, zero := make([]byte, 1<<20), make([]byte, os.Getpagesize())
	for at := int64(0); at < b.memorySize; at += int64(len(buf)) {
		if _, err := from.ReadAt(buf, at); err != nil {
			return err
		}
		for i := 0; i < len(buf); i += len(zero) {
			page := buf[i : i+len(zero)]
			if bytes.Equal(page, zero) {
				continue
			}
			begin := at + int64(i)
			if _, err := b.memory.WriteAt(page, begin); err != nil {
				return err
			}
			if n := len(b.pages); n > 0 && b.pages[n-1].end == begin {
				b.pages[n-1].end += int64(len(page))
			} else {
				b.pages = append(b.pages, extent{begin, begin + int64(len(page))})
			}
		}
	}
	return seal(b.memory)
}

// restoreMemory returns a copy of the memory of the snapshot.
func (b *Backend) restoreMemory() (_ *os.File, err error) {
	f, err := b.newMemory()
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			f.Close()
		}
	}()
	for _, e := range b.pages {
		if _, err := f.Seek(e.at, io.SeekStart); err != nil {
			return nil, err
		}
		for at := e.at; at < e.end; {
			n, err := unix.Sendfile(int(f.Fd()), int(b.memory.Fd()), &at, int(e.end-at))
			if err != nil || n == 0 {
				return nil, fmt.Errorf("copying the memory of the snapshot: %d bytes %w", n, err)
			}
		}
	}
	return f, nil
}
