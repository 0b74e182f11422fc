package skill

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/store"
)

// Import saves the skills that lie in dir as NAME.py, described by NAME.json if
// there is one, and returns the names of those that are new. What a version of a
// skill was made from is not taken again: so a file is taken when it is new or
// has changed, and never undoes what was saved since. Nothing is deleted. A
// skill that cannot be taken does not keep back the others; the error joins what
// was wrong.
func (s *Store) Import(ctx context.Context, dir string) (names []string, err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fault.Wrap(fault.Invalid, err, "the directory of skills %s cannot be read", dir)
	}
	defer root.Close()
	paths, err := fs.Glob(root.FS(), "*.py")
	if err != nil {
		return nil, err
	}
	var wrong []error
	for _, path := range paths {
		name := strings.TrimSuffix(path, ".py")
		if strings.HasPrefix(name, "__") {
			continue // __init__.py
		}
		fresh, err := s.importOne(ctx, root, name)
		if err != nil {
			wrong = append(wrong, err)
		}
		if fresh {
			names = append(names, name)
		}
	}
	return names, errors.Join(wrong...)
}

func (s *Store) importOne(ctx context.Context, root *os.Root, name string) (fresh bool, err error) {
	code, err := readFile(root, name+".py")
	if err != nil {
		return false, fault.Wrap(fault.Invalid, err, "the file %s.py of a skill cannot be read", name)
	}
	var about struct {
		Description string
		Tags        []string
	}
	if text, err := readFile(root, name+".json"); err == nil {
		_ = json.Unmarshal([]byte(text), &about) // a skill without words is one
	}
	if known, err := s.had(ctx, name, code); known || err != nil {
		return false, err
	}
	_, err = s.Save(ctx, name, code, about.Description, about.Tags)
	return err == nil, err
}

// had reports whether a version of the skill that is kept has this code.
func (s *Store) had(ctx context.Context, name, code string) (known bool, err error) {
	sum := sha256.Sum256([]byte(code))
	err = s.cfg.DB.View(ctx, func(tx *store.Tx) error {
		return tx.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM skills WHERE name = ? AND code_hash = ?)", name, hex.EncodeToString(sum[:])).Scan(&known)
	})
	return known, err
}

// readFile reads a regular file that does not lead out of root.
func readFile(root *os.Root, path string) (string, error) {
	info, err := root.Stat(path)
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() {
		return "", fmt.Errorf("%s is no regular file", path)
	}
	f, err := root.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxCode+1)) // one more, so that Check refuses it
	return string(b), err
}
