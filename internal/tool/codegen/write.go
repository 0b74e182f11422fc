package codegen

import (
	"bytes"
	"io"
	"os"
	"strings"
)

const (
	initName   = "__init__.py"
	tempPrefix = ".new-" // prefix of unfinished files and directories
)

// write replaces the files of a directory whose content differs. A file with nil
// Data is known to be up to date.
func write(root *os.Root, dir string, files []File) (wrote bool, err error) {
	for _, f := range files {
		if f.Data == nil || upToDate(root, f) {
			continue
		}
		wrote = true
		next := dir + "/" + tempPrefix + strings.ReplaceAll(f.Path, "/", "-")
		if err := root.RemoveAll(next); err != nil { // left by a process that was killed
			return wrote, err
		}
		if err := createFile(root, next, f.Data); err != nil {
			return wrote, err
		}
		if err := root.Rename(next, f.Path); err != nil {
			return wrote, err
		}
	}
	return wrote, nil
}

// upToDate reports whether the file exists, is readable by all and has this
// content. It does not read a file of another size.
func upToDate(root *os.Root, f File) bool {
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

// createFile creates a file that is readable by all, regardless of the umask.
func createFile(root *os.Root, name string, data []byte) error {
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Chmod(0o644)
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}
