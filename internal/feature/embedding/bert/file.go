package bert

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"io"
	"os"
	"unsafe"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// A model file has these parts: the magic, the length of the header as uint32, the header
// as JSON, zeros up to a multiple of align, the weights as float32, and the SHA-256 of all
// that precedes it. Numbers are little-endian.
const (
	magic = "sandpiper bert 1"
	align = 64
)

// header is the part of a model file before the weights.
type header struct {
	Config Config   `json:"config"`
	Tokens []string `json:"tokens"` // of the vocabulary, by id
}

// Limits of a model.
const (
	maxHeader  = 16 << 20
	maxWeights = 140 << 20 // bytes
)

// check returns an error if the package cannot compute the model.
func (c Config) check() error {
	for _, v := range []struct {
		name                  string
		value, most, multiple int
	}{
		{"hidden_size", c.Hidden, 1024, blockCols}, {"intermediate_size", c.Inner, 4096, blockCols}, {"num_hidden_layers", c.Layers, 24, 1},
		{"num_attention_heads", c.Heads, 64, 1}, {"vocab_size", c.Vocabulary, 1 << 18, 1}, {"max_position_embeddings", c.Positions, 1 << 13,
			1},
	} {
		if v.value < 1 || v.value > v.most || v.value%v.multiple != 0 {
			return wrongKind("%s is %d; it must be 1 to %d and a multiple of %d", v.name, v.value, v.most, v.multiple)
		}
	}
	switch {
	case c.Type != "bert" || c.Activation != "gelu" || c.PositionType != "" && c.PositionType != "absolute":
		return wrongKind("its type is %.40q with the activation %.40q and positions %.40q", c.Type, c.Activation, c.PositionType)
	case c.Hidden%c.Heads != 0 || c.Hidden/c.Heads%blockCols != 0:
		return wrongKind("its %d attention heads do not divide %d dimensions into multiples of %d", c.Heads, c.Hidden, blockCols)
	case c.Positions < 3 || !(c.Epsilon > 0 && c.Epsilon < 1):
		return wrongKind("it has %d positions and the epsilon %v", c.Positions, c.Epsilon)
	case weightBytes(c) > maxWeights:
		return fault.New(fault.Invalid, "the model is too large: it has %d MB of weights, and at most %d MB are allowed",
			weightBytes(c)>>20, maxWeights>>20).
			WithHint("use a smaller model, such as all-MiniLM-L6-v2, or run this one at an endpoint of search.embeddings")
	}
	return nil
}

// wrongKind returns the error for a model that the package cannot compute.
func wrongKind(format string, args ...any) error {
	return fault.New(fault.Invalid, "the model is of an unsupported kind: "+format, args...).
		WithHint("use a BERT sentence transformer with mean pooling, such as all-MiniLM-L6-v2")
}

// damaged returns the error for a model file that was not written by Convert.
func damaged(cause error, reason string) error {
	return fault.Wrap(fault.Unavailable, cause, "the model file is damaged: %s", reason).
		WithHint("install it again with `sandpiper models add`")
}

// write writes a model file. Next returns the numbers of each section in turn.
func write(w io.Writer, h header, next func(section) ([]float32, error)) error {
	sum := sha256.New()
	out := bufio.NewWriterSize(io.MultiWriter(w, sum), 1<<20)
	text, err := json.Marshal(h)
	if err != nil {
		return err
	}
	b := binary.LittleEndian.AppendUint32([]byte(magic), uint32(len(text)))
	b = append(b, text...)
	b = append(b, make([]byte, roundUp(len(b), align)-len(b))...)
	if _, err := out.Write(b); err != nil {
		return err
	}
	m := Model{cfg: h.Config, layers: make([]layer, h.Config.Layers)}
	for _, s := range m.sections() {
		numbers, err := next(s)
		if err != nil {
			return err
		}
		if err := binary.Write(out, binary.LittleEndian, numbers); err != nil {
			return err
		}
	}
	if err := out.Flush(); err != nil {
		return err
	}
	_, err = w.Write(sum.Sum(nil))
	return err
}

// Open verifies a model file and maps it into memory. The file may be replaced, but not changed,
// while the model is open.
func Open(path string) (*Model, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxHeader+maxWeights {
		return nil, damaged(nil, "it is no file, or too large")
	}
	identity, err := verify(f, info.Size())
	if err != nil {
		return nil, err
	}
	data, unmap, err := mapFile(f, int(info.Size()))
	if err != nil {
		return nil, err
	}
	m, err := parse(data)
	if err != nil {
		_ = unmap()
		return nil, err
	}
	m.identity, m.path, m.opened, m.close = identity, path, info, unmap
	return m, nil
}

// Checksum returns the checksum at the end of a model file, which is that of its model if the file is
// not damaged.
func Checksum(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	sum := make([]byte, sha256.Size)
	if info.Size() < sha256.Size {
		return "", nil
	}
	_, err = f.ReadAt(sum, info.Size()-sha256.Size)
	return hex.EncodeToString(sum), err
}

// verify returns the checksum of a model file, which it compares with the one at the end.
func verify(f io.Reader, size int64) (string, error) {
	sum := sha256.New()
	if _, err := io.CopyN(sum, f, size-sha256.Size); err != nil {
		return "", damaged(err, "it is incomplete")
	}
	stored, err := io.ReadAll(io.LimitReader(f, sha256.Size))
	if err != nil {
		return "", err
	}
	if !bytes.Equal(stored, sum.Sum(nil)) {
		return "", damaged(nil, "its checksum is wrong")
	}
	return hex.EncodeToString(stored), nil
}

// parse returns the model in the content of a verified file. Its weights are parts of data.
func parse(data []byte) (*Model, error) {
	data = data[:len(data)-sha256.Size]
	const fixed = len(magic) + 4
	if len(data) < fixed || string(data[:len(magic)]) != magic {
		return nil, damaged(nil, "it does not begin with "+magic)
	}
	end := fixed + int(binary.LittleEndian.Uint32(data[len(magic):]))
	if end > min(len(data), maxHeader) {
		return nil, damaged(nil, "its header is too long")
	}
	var h header
	if err := json.Unmarshal(data[fixed:end], &h); err != nil {
		return nil, damaged(err, "its header is no JSON")
	}
	if err := h.Config.check(); err != nil {
		return nil, err
	}
	m := &Model{cfg: h.Config, layers: make([]layer, h.Config.Layers)}
	var err error
	if m.tokens, err = newTokenizer(h.Tokens, h.Config.Vocabulary); err != nil {
		return nil, err
	}
	data = data[min(roundUp(end, align), len(data)):]
	if len(data) != weightBytes(h.Config) {
		return nil, damaged(nil, "its weights are incomplete")
	}
	for _, s := range m.sections() {
		*s.to = unsafe.Slice((*float32)(unsafe.Pointer(&data[0])), s.size)
		data = data[4*s.size:]
	}
	m.scratch.New = func() any { return newScratch(m.cfg) }
	return m, nil
}
