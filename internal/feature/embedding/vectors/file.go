package vectors

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"hash/crc32"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/embedding/model"
)

// key is a hash of the text that a vector was made from.
type key [16]byte

func keyOf(text string) key {
	sum := sha256.Sum256([]byte(text))
	return key(sum[:16])
}

// vectorFile stores the vectors of one model: a header with their dimensions, then
// records of one size in the order in which they were made. A writer must hold the
// lock. A reader needs none: it skips records whose checksum is wrong, so a write
// that a crash interrupted loses only its last records.
type vectorFile struct{ path string }

const (
	fileMagic  = "sandpiper vec 2\n" // version 1 stored a byte for each number
	headerSize = len(fileMagic) + 4
	// maxFile bounds the file, in which vectors of texts that no longer exist
	// remain: a larger file is emptied before the next write. 30,000 vectors of
	// 3072 numbers need 370 MB.
	maxFile = 1 << 30
)

func fileOf(dir, identity string) vectorFile {
	sum := sha256.Sum256([]byte(identity))
	return vectorFile{filepath.Join(dir, hex.EncodeToString(sum[:8])+".vectors")}
}

// RemoveVectors deletes the vectors of a model, which nothing uses any more, and returns the size of
// their file. It waits for an Index that is about to notice that.
func RemoveVectors(ctx context.Context, dir, identity string) (bytes int64, err error) {
	f := fileOf(dir, identity)
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	unlock, err := f.lock(ctx)
	if err != nil {
		return 0, err
	}
	defer unlock()
	info, err := os.Stat(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err = errors.Join(err, os.Remove(f.path)); err != nil {
		return 0, storeError(err)
	}
	return info.Size(), nil
}

// lock waits for the lock of a writer.
func (f vectorFile) lock(ctx context.Context) (unlock func(), err error) {
	lock := flock.New(f.path+".lock", flock.SetPermissions(0o600))
	if ok, err := lock.TryLockContext(ctx, 200*time.Millisecond); !ok {
		return nil, storeError(err)
	}
	return func() { _ = lock.Unlock() }, nil
}

// recordSize returns the size of a record: key, float32 numbers and CRC-32.
func recordSize(dimensions int) int { return len(key{}) + 4*dimensions + 4 }

// load reads all vectors. A missing file, or one with another header, has none.
func (f vectorFile) load() (vectors map[key]vector, dimensions int, err error) {
	vectors = map[key]vector{}
	in, err := os.Open(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return vectors, 0, nil
	}
	if err != nil {
		return vectors, 0, storeError(err)
	}
	defer in.Close()
	r := bufio.NewReaderSize(in, 1<<16)
	header := make([]byte, headerSize)
	if _, err := io.ReadFull(r, header); err != nil || !bytes.HasPrefix(header, []byte(fileMagic)) {
		return vectors, 0, readError(err)
	}
	dimensions = int(binary.LittleEndian.Uint32(header[len(fileMagic):]))
	if dimensions == 0 || dimensions > model.MaxDimensions {
		return vectors, 0, nil
	}
	for record := make([]byte, recordSize(dimensions)); ; {
		if _, err := io.ReadFull(r, record); err != nil {
			if len(vectors) == 0 {
				dimensions = 0
			}
			return vectors, dimensions, readError(err)
		}
		if k, v, ok := decode(record); ok {
			vectors[k] = v
		}
	}
}

// readError returns nil for the end of the file, also within a record.
func readError(err error) error {
	if err == nil || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil
	}
	return storeError(err)
}

// decode reads a record and reports whether its checksum is correct.
func decode(record []byte) (key, vector, bool) {
	body := record[:len(record)-4]
	if crc32.ChecksumIEEE(body) != binary.LittleEndian.Uint32(record[len(body):]) {
		return key{}, nil, false
	}
	numbers := body[len(key{}):]
	v := make(vector, len(numbers)/4)
	for i := range v {
		v[i] = math.Float32frombits(binary.LittleEndian.Uint32(numbers[4*i:]))
	}
	return key(body[:len(key{})]), v, true
}

// add appends vectors, all with the same dimensions. It first empties a file with
// another header or larger than maxFile. The caller holds the lock.
func (f vectorFile) add(keys []key, vectors []vector) error {
	dimensions := len(vectors[0])
	out, err := os.OpenFile(f.path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return storeError(err)
	}
	defer out.Close()
	end, err := truncatePartial(out, dimensions)
	if err != nil {
		return storeError(err)
	}
	var b []byte
	if end == 0 {
		b = append(b, fileMagic...)
		b = binary.LittleEndian.AppendUint32(b, uint32(dimensions))
	}
	for i, v := range vectors {
		begin := len(b)
		b = append(b, keys[i][:]...)
		for _, x := range v {
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
		}
		b = binary.LittleEndian.AppendUint32(b, crc32.ChecksumIEEE(b[begin:]))
	}
	if _, err = out.WriteAt(b, end); err != nil {
		return storeError(err)
	}
	return nil
}

// truncatePartial removes an incomplete last record and returns the offset of the
// next one; 0 if the file was emptied.
func truncatePartial(f *os.File, dimensions int) (int64, error) {
	fi, err := f.Stat()
	if err != nil {
		return 0, err
	}
	header := make([]byte, headerSize)
	want := binary.LittleEndian.AppendUint32([]byte(fileMagic), uint32(dimensions))
	if _, err := f.ReadAt(header, 0); err != nil || !bytes.Equal(header, want) || fi.Size() > maxFile {
		return 0, f.Truncate(0)
	}
	complete := (fi.Size() - int64(headerSize)) / int64(recordSize(dimensions)) * int64(recordSize(dimensions))
	return int64(headerSize) + complete, f.Truncate(int64(headerSize) + complete)
}

func storeError(err error) error {
	return fault.Wrap(fault.Unavailable, err, "read or write the vectors of tools").WithHint("check the disk of the data directory")
}
