package audit

import (
	"errors"
	"io"
	"os"
	"path/filepath"
)

// MatchesKey reports whether a log was written with cfg.Key: its head or a line of its
// first file has the right hash. A log without lines matches every key, and needs none.
func MatchesKey(cfg Config) (bool, error) {
	files, err := list(cfg.Dir)
	if err != nil || len(files) == 0 {
		return err == nil, err
	}
	s := newSigner(cfg.Key)
	if _, wrong, err := readHead(s, cfg.Dir); err != nil || wrong == "" {
		return err == nil, explain(err)
	}
	f, err := os.Open(filepath.Join(cfg.Dir, files[0]))
	if err != nil {
		return false, explain(err)
	}
	defer f.Close()
	for r, lines := newReader(f), 0; ; lines++ {
		line, _, err := next(r)
		if errors.Is(err, io.EOF) {
			return lines == 0, nil
		}
		if err != nil {
			return false, explain(err)
		}
		if _, _, ok := s.verify(line); ok {
			return true, nil
		}
	}
}
