package codegen

import (
	"bytes"
	"io"
	"os"
	"strings"
)

const (
	initName  = "__init__.py"
	temporary = ".new-" // begins the names of what is not finished
)

// write replaces the files in a directory that are not as they should be. One
// without content is known to be.
func write(root *os.Root, dir string, files []File) (wrote bool, err error) {
	for _, f := range files {
		if f.Data == nil || same(root, f) {
			continue
		}
		wrote = true
		next := dir + "/" + temporary + strings.ReplaceAll(f.Path, "/", "-")
		if err := root.RemoveAll(next); err != nil { // of a process that died
			return wrote, err
		}
		if err := put(root, next, f.Data); err != nil {
			return wrote, err
		}
		if err := root.Rename(next, f.Path); err != nil {
			return wrote, err
		}
	}
	return wrote, nil
}

// same says whether a file is there with this content. It reads no further than
// a difference in size.
func same(root *os.Root, f File) bool {
	info, err := root.Lstat(f.Path)
	if err != nil || !info.Mode().IsRegular() || info.Size() != int64(len(f.Data)) || info.Mode().Perm()&0o444 != 0o444 {
		return false
	}
	file, err := root.Open(f.Path)
	if err != nil {
		return false
	}
	defer file.Close()
	now, err := io.ReadAll(io.LimitReader(file, int64(len(f.Data))+1))
	return err == nil && bytes.Equal(now, f.Data)
}

// put makes a file that everybody may read, whatever the umask is.
func put(root *os.Root, name string, data []byte) error {
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Chmod(0o644)
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	return err
}
