package skill

import (
	"cmp"
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
	"github.com/sandpiper-mcp/sandpiper/internal/tool/pysource"
)

// Import saves the skills in dir, each NAME.py with an optional NAME.json for its description,
// and returns the names of the imported ones. A file whose code equals a stored version is
// skipped, so a file is imported when it is new or changed and never overwrites a later save.
// Nothing is deleted. A skill that cannot be imported does not stop the others; the errors are
// joined.
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
		_ = json.Unmarshal([]byte(text), &about) // the description is optional
	}
	if known, err := s.hasVersion(ctx, name, code); known || err != nil {
		return false, err
	}
	_, err = s.Save(ctx, Draft{Name: name, Code: code, Description: cmp.Or(about.Description, describe(name, code)), Tags: about.Tags})
	return err == nil, err
}

// describe returns the first paragraph of the docstring of a skill's function, or else of its
// module; "" if neither has one.
func describe(name, code string) string {
	m := pysource.Parse([]byte(code))
	f, _ := m.Find(name)
	text, _, _ := strings.Cut(cmp.Or(f.Doc, m.Doc), "\n\n")
	if len(text) > maxDescription {
		return ""
	}
	return strings.Join(strings.Fields(text), " ")
}

// hasVersion reports whether a stored version of the skill has this code.
func (s *Store) hasVersion(ctx context.Context, name, code string) (known bool, err error) {
	sum := sha256.Sum256([]byte(code))
	err = s.cfg.DB.View(ctx, func(tx *store.Tx) error {
		return tx.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM skills WHERE name = ? AND code_hash = ?)", name,
			hex.EncodeToString(sum[:])).Scan(&known)
	})
	return known, err
}

// readFile reads a regular file inside root.
func readFile(root *os.Root, path string) (string, error) {
	info, err := root.Stat(path)
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() {
		return "", fmt.Errorf("%s is not a regular file", path)
	}
	f, err := root.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxCode+1)) // one more byte, so that Check refuses it
	return string(b), err
}
