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

// head is the end of the chain. It is written after the lines were synced, and is not
// synced itself: after a power failure it may be some lines behind, but never ahead.
type head struct {
	Seq    int64  `json:"head"`
	At     string `json:"at"`     // hash of that line
	File   string `json:"file"`   // of the next line; "" if there is none yet
	Offset int64  `json:"offset"` // of the end of the line, in File
}

// headSize is constant, so that one write in place replaces the head: creating a new file
// each time would be the largest cost of a commit.
const headSize = 320

func headPath(dir string) string { return filepath.Join(dir, "head") }

func (h head) encode(s *signer) ([]byte, error) {
	b, err := json.Marshal(h)
	if err != nil {
		return nil, err
	}
	b = s.sign(b[:len(b)-1])
	return append(append(b, bytes.Repeat([]byte(" "), headSize-1-len(b))...), '\n'), nil
}

// readHead returns the head, or headMissing or headChanged.
func readHead(s *signer, dir string) (h head, wrong string, err error) {
	f, err := os.Open(headPath(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return head{}, headMissing, nil
	}
	if err != nil {
		return head{}, "", err
	}
	defer f.Close()
	for range 5 { // another process may be replacing it
		b := make([]byte, headSize+1)
		n, err := f.ReadAt(b, 0)
		if err != nil && !errors.Is(err, io.EOF) {
			return head{}, "", err
		}
		if n == 0 { // just created
			return head{}, headMissing, nil
		}
		if h, ok := decodeHead(s, b[:n]); ok {
			return h, "", nil
		}
	}
	return head{}, headChanged, nil
}

func decodeHead(s *signer, b []byte) (h head, ok bool) {
	text, ended := bytes.CutSuffix(b, []byte("\n"))
	if len(b) != headSize || !ended {
		return head{}, false
	}
	body, _, ok := s.verify(bytes.TrimRight(text, " "))
	if !ok {
		return head{}, false
	}
	err := json.Unmarshal(append(bytes.Clone(body), '}'), &h)
	return h, err == nil && (h.File == "" || isFile(h.File))
}

// writeHead replaces the head. The first is synced, before any line is written.
func writeHead(s *signer, dir string, h head, first bool) error {
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
