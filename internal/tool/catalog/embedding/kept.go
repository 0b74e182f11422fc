package embedding

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"hash/crc32"
	"io/fs"
	"math"
	"os"
	"path/filepath"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog/embedding/model"
)

// key is of a text that has a vector.
type key [16]byte

func keyOf(text string) key {
	sum := sha256.Sum256([]byte(text))
	return key(sum[:16])
}

// kept is the file of the vectors of one model: a head that says how many
// dimensions they have, then records of one size, in the order in which they were
// made. Who writes holds the lock; who reads needs none, and passes over what is
// not whole, so that a file cut off by a crash loses its last records only.
type kept struct{ path string }

const (
	headMagic = "sandpiper vec 1\n"
	headSize  = len(headMagic) + 4
	// largest is how large the file may grow with vectors that nobody needs any
	// more before it is begun anew.
	largest = 256 << 20
)

func keptIn(dir, identity string) kept {
	sum := sha256.Sum256([]byte(identity))
	return kept{filepath.Join(dir, hex.EncodeToString(sum[:8])+".vectors")}
}

// recordSize of a vector: key, scale, steps and a sum over all of it.
func recordSize(dimensions int) int { return len(key{}) + 4 + dimensions + 4 }

// load reads all vectors. A file that is none of ours is as one that is not there.
func (k kept) load() (vectors map[key]vector, dimensions int, err error) {
	vectors = map[key]vector{}
	b, err := os.ReadFile(k.path)
	if errors.Is(err, fs.ErrNotExist) {
		return vectors, 0, nil
	}
	if err != nil {
		return vectors, 0, unkept(err)
	}
	if len(b) < headSize || !bytes.HasPrefix(b, []byte(headMagic)) {
		return vectors, 0, nil
	}
	dimensions = int(binary.LittleEndian.Uint32(b[len(headMagic):]))
	if dimensions == 0 || dimensions > model.MostDimensions {
		return vectors, 0, nil
	}
	n := recordSize(dimensions)
	for b = b[headSize:]; len(b) >= n; b = b[n:] {
		r := b[:n:n]
		if crc32.ChecksumIEEE(r[:n-4]) != binary.LittleEndian.Uint32(r[n-4:]) {
			continue
		}
		scale := math.Float32frombits(binary.LittleEndian.Uint32(r[len(key{}):]))
		vectors[key(r[:len(key{})])] = newVector(scale, r[len(key{})+4:n-4])
	}
	if len(vectors) == 0 {
		dimensions = 0
	}
	return vectors, dimensions, nil
}

// add writes vectors, all of the same dimensions, behind those that are there. A
// file of another kind, or too large, is begun anew. The caller holds the lock.
func (k kept) add(keys []key, vectors []vector) error {
	dimensions := len(vectors[0].steps)
	f, err := os.OpenFile(k.path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return unkept(err)
	}
	defer f.Close()
	end, err := endOf(f, dimensions)
	if err != nil {
		return unkept(err)
	}
	var b []byte
	if end == 0 {
		b = append(b, headMagic...)
		b = binary.LittleEndian.AppendUint32(b, uint32(dimensions))
	}
	for i, v := range vectors {
		begin := len(b)
		b = append(b, keys[i][:]...)
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v.scale))
		b = append(b, v.steps...)
		b = binary.LittleEndian.AppendUint32(b, crc32.ChecksumIEEE(b[begin:]))
	}
	if _, err = f.WriteAt(b, end); err != nil {
		return unkept(err)
	}
	return nil
}

// endOf is where the next record belongs, after what is not whole was cut off.
func endOf(f *os.File, dimensions int) (int64, error) {
	fi, err := f.Stat()
	if err != nil {
		return 0, err
	}
	head := make([]byte, headSize)
	want := binary.LittleEndian.AppendUint32([]byte(headMagic), uint32(dimensions))
	if _, err := f.ReadAt(head, 0); err != nil || !bytes.Equal(head, want) || fi.Size() > largest {
		return 0, f.Truncate(0)
	}
	whole := (fi.Size() - int64(headSize)) / int64(recordSize(dimensions)) * int64(recordSize(dimensions))
	return int64(headSize) + whole, f.Truncate(int64(headSize) + whole)
}

func unkept(err error) error {
	return fault.Wrap(fault.Unavailable, err, "the vectors of tools could not be kept").WithHint("look at the disk of the data directory")
}
