package audit

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/sandpiper-mcp/sandpiper/internal/store/durable"
)

// head says where the chain ends. It is written after the lines were synced, and
// itself not: after a loss of power it may be some lines behind, and never ahead.
type head struct {
	Seq    int64  `json:"head"`
	At     string `json:"at"`     // hash of that line
	File   string `json:"file"`   // where the next goes; "" if there is no file yet
	Offset int64  `json:"offset"` // behind the line, in File
}

// headSize is always the same, so that a head is replaced by one write in place:
// making a new file each time would cost more than all else.
const headSize = 320

func headPath(dir string) string { return filepath.Join(dir, "head") }

func (h head) encode(s *sealer) ([]byte, error) {
	b, err := json.Marshal(h)
	if err != nil {
		return nil, err
	}
	b = s.seal(b[:len(b)-1])
	return append(append(b, bytes.Repeat([]byte(" "), headSize-1-len(b))...), '\n'), nil
}

// readHead returns the head, or what is wrong with it.
func readHead(s *sealer, dir string) (h head, wrong string, err error) {
	f, err := os.Open(headPath(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return head{}, headMissing, nil
	}
	if err != nil {
		return head{}, "", err
	}
	defer f.Close()
	for range 5 { // another may just be replacing it
		b := make([]byte, headSize+1)
		n, err := f.ReadAt(b, 0)
		if err != nil && !errors.Is(err, io.EOF) {
			return head{}, "", err
		}
		if n == 0 { // made a moment ago
			return head{}, headMissing, nil
		}
		if h, ok := decodeHead(s, b[:n]); ok {
			return h, "", nil
		}
	}
	return head{}, headChanged, nil
}

func decodeHead(s *sealer, b []byte) (h head, ok bool) {
	text, ended := bytes.CutSuffix(b, []byte("\n"))
	if len(b) != headSize || !ended {
		return head{}, false
	}
	body, _, ok := s.open(bytes.TrimRight(text, " "))
	if !ok {
		return head{}, false
	}
	err := json.Unmarshal(append(bytes.Clone(body), '}'), &h)
	return h, err == nil && (h.File == "" || isFile(h.File))
}

// writeHead replaces the head. The first is on disk before any line is.
func writeHead(s *sealer, dir string, h head, first bool) error {
	b, err := h.encode(s)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(headPath(dir), os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(b, 0)
	if first && err == nil {
		err = errors.Join(f.Sync(), durable.SyncDir(dir))
	}
	return errors.Join(err, f.Close())
}
