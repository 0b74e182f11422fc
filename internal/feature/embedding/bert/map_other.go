//go:build !unix

package bert

import (
	"io"
	"os"
	"unsafe"
)

// mapFile reads the first size bytes of a file, since files are not mapped on this system.
func mapFile(f *os.File, size int) (data []byte, unmap func() error, err error) {
	aligned := make([]float32, (size+3)/4)
	data = unsafe.Slice((*byte)(unsafe.Pointer(&aligned[0])), size)
	_, err = io.ReadFull(io.NewSectionReader(f, 0, int64(size)), data)
	return data, func() error { return nil }, err
}
