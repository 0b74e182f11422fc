package backup

import (
	"archive/tar"
	"bufio"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"hash"
	"io"
	"os"
	"syscall"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// A backup is a tar archive, whose first entry is the manifest and whose others have paths in a data
// directory, followed by a line with the HMAC-SHA-256 of the archive. Its key is derived from the master
// key, so that others cannot write a backup.
const (
	manifestName = "backup.json"
	trailer      = "sandpiper backup "
	trailerSize  = int64(len(trailer) + 2*sha256.Size + 1)
)

// backupFormat is the version of the file. It changes when an older Sandpiper would misread it.
const backupFormat = 1

// manifest describes a backup.
type manifest struct {
	Format  int       `json:"format"`
	Created time.Time `json:"created"`
	Version string    `json:"version"` // of the Sandpiper that wrote it
	Key     string    `json:"key"`     // fingerprint of the master key
}

func newManifest(version, key string) manifest {
	return manifest{Format: backupFormat, Created: time.Now().UTC().Truncate(time.Second), Version: version, Key: key}
}

func writeManifest(tw *tar.Writer, m manifest) error {
	b, err := json.Marshal(m)
	if err != nil {
		return err
	}
	err = tw.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: manifestName, Mode: 0o600, Size: int64(len(b))})
	if err == nil {
		_, err = tw.Write(b)
	}
	return err
}

// backupWriter appends the trailer to the data.
type backupWriter struct {
	io.Writer // to out and mac
	out       *bufio.Writer
	mac       hash.Hash
}

func newBackupWriter(w io.Writer, key []byte) *backupWriter {
	b := &backupWriter{out: bufio.NewWriterSize(w, 1<<20), mac: hmac.New(sha256.New, key)}
	b.Writer = io.MultiWriter(b.out, b.mac)
	return b
}

func (b *backupWriter) finish() error {
	_, err := io.WriteString(b.out, trailer+hex.EncodeToString(b.mac.Sum(nil))+"\n")
	return errors.Join(err, b.out.Flush())
}

// File is a file of Write, which may be encrypted as a whole in the format of age.
type File struct {
	Path string
	// Decrypt returns the content of an encrypted file; required for those.
	Decrypt func(content io.ReaderAt, size int64) (io.ReaderAt, int64, error)
}

// openFile is a backup that is read.
type openFile struct {
	file    *os.File
	content io.ReaderAt // of the file, decrypted
	size    int64       // of the archive
	manifest
}

// openBackup opens a file and reads its manifest. The rest is not verified yet.
func openBackup(from File) (*openFile, error) {
	f, err := os.OpenFile(from.Path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // opening a pipe would block
	if err != nil {
		return nil, fault.Wrap(fault.Invalid, err, "open the backup: %v", err)
	}
	b := &openFile{file: f}
	if err = b.decrypt(from); err == nil {
		err = b.readManifest()
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return b, nil
}

// ageMark is the beginning of a file in the format of age.
const ageMark = "age-encryption.org/"

// decrypt sets content and size.
func (b *openFile) decrypt(from File) error {
	fi, err := b.file.Stat()
	if err != nil {
		return err
	}
	if !fi.Mode().IsRegular() {
		return fault.New(fault.Invalid, "%s is not a regular file; nothing was changed", from.Path).
			WithHint("a backup is read more than once: copy it to a file first")
	}
	size := fi.Size()
	b.content = b.file
	mark := make([]byte, len(ageMark))
	if _, err := b.file.ReadAt(mark, 0); err == nil && string(mark) == ageMark {
		if b.content, size, err = from.Decrypt(b.file, size); err != nil {
			return err
		}
	}
	b.size = size - trailerSize
	return nil
}

func (b *openFile) close() error { return b.file.Close() }

func (b *openFile) readManifest() error {
	foreign := func(err error) error {
		return fault.Wrap(fault.Invalid, err, "%s is not a file of sandpiper backup; nothing was changed", b.file.Name()).
			WithHint("files of tenant export are imported with `sandpiper tenant import`")
	}
	tr := tar.NewReader(io.NewSectionReader(b.content, 0, b.size+trailerSize))
	h, err := tr.Next()
	if err != nil || h.Name != manifestName {
		return foreign(err)
	}
	text, err := io.ReadAll(io.LimitReader(tr, 64<<10))
	if err != nil {
		return foreign(err)
	}
	if err := json.Unmarshal(text, &b.manifest); err != nil || b.Format < 1 || b.Key == "" {
		return foreign(err)
	}
	if b.Format > backupFormat {
		return fault.New(fault.Unavailable, "the backup has format %d, this Sandpiper knows formats up to %d; nothing was changed",
			b.Format, backupFormat).
			WithHint("Sandpiper %s wrote it: update this one", b.Version)
	}
	return nil
}

// verify reads the whole file. It fails if that is truncated or altered.
func (b *openFile) verify(ctx context.Context, key []byte) error {
	damaged := fault.New(fault.Invalid, "%s is truncated, or was changed after sandpiper backup wrote it; nothing was changed",
		b.file.Name()).
		WithHint("restore another backup")
	if b.size <= 0 {
		return damaged
	}
	mac := hmac.New(sha256.New, key)
	if _, err := io.Copy(mac, contextReader{ctx, io.NewSectionReader(b.content, 0, b.size)}); err != nil {
		return b.readError(ctx, err, damaged)
	}
	end := make([]byte, trailerSize)
	if _, err := b.content.ReadAt(end, b.size); err != nil && err != io.EOF {
		return b.readError(ctx, err, damaged)
	}
	if !hmac.Equal(end, []byte(trailer+hex.EncodeToString(mac.Sum(nil))+"\n")) {
		return damaged
	}
	return nil
}

// readError returns damaged for an encrypted file that cannot be decrypted, else err.
func (b *openFile) readError(ctx context.Context, err, damaged error) error {
	if _, plain := b.content.(*os.File); plain || ctx.Err() != nil {
		return err
	}
	return errors.Join(damaged, err)
}

// entries calls add for each entry after the manifest.
func (b *openFile) entries(ctx context.Context, add func(*tar.Header, io.Reader) error) error {
	tr := tar.NewReader(bufio.NewReaderSize(contextReader{ctx, io.NewSectionReader(b.content, 0, b.size)}, 1<<20))
	if _, err := tr.Next(); err != nil {
		return err
	}
	for {
		h, err := tr.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if err := add(h, tr); err != nil {
			return err
		}
	}
}

// contextReader stops when its context ends.
type contextReader struct {
	ctx context.Context
	io.Reader
}

// Read implements io.Reader.
func (c contextReader) Read(p []byte) (int, error) {
	if c.ctx.Err() != nil {
		return 0, context.Cause(c.ctx)
	}
	return c.Reader.Read(p)
}
