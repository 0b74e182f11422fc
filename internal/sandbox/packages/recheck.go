package packages

import (
	"bufio"
	"encoding/csv"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// checkedName is the name of an empty file in a layer whose modules were checked by this version's rules.
const checkedName = "modules-1"

// recheck checks once that no package of a layer that an earlier version installed replaces a module of
// another, by the lists of files in its packages; layer is its path, and root the directory of its files.
func recheck(layer, root string) error {
	if _, err := os.Stat(filepath.Join(layer, checkedName)); err == nil {
		return nil
	}
	files, err := recorded(root)
	if err == nil {
		err = checkModules(files)
	}
	if fault.KindOf(err) == fault.Invalid {
		return fault.Wrap(fault.Invalid, err, "the installed packages cannot be used: %s", fault.Message(err)).
			WithHint("remove one of the two packages from the requirements, then run `sandpiper packages lock` and `sandpiper packages " +
				"install`")
	}
	if err != nil {
		return fault.Wrap(fault.Unavailable, err, "the installed packages cannot be checked")
	}
	return markChecked(layer)
}

// markChecked records that a layer need not be checked again. On a read-only disk it is.
func markChecked(layer string) error {
	if f, err := os.Create(filepath.Join(layer, checkedName)); err == nil {
		return f.Close()
	}
	return nil
}

// recorded returns the files that the packages below root list. It fails if two list different contents of one.
func recorded(root string) (map[string]*origin, error) {
	lists, err := filepath.Glob(filepath.Join(root, "*.dist-info", "RECORD"))
	if err != nil {
		return nil, err
	}
	files, sums := map[string]*origin{}, map[string]string{}
	for _, list := range lists {
		name := strings.TrimSuffix(filepath.Base(filepath.Dir(list)), ".dist-info")
		pkg, _, _ := strings.Cut(name, "-")
		if err := addRecord(files, sums, root, list, pkg); err != nil {
			return nil, err
		}
	}
	return files, nil
}

func addRecord(files map[string]*origin, sums map[string]string, root, list, pkg string) error {
	f, err := os.Open(list)
	if err != nil {
		return err
	}
	defer f.Close()
	r := csv.NewReader(bufio.NewReader(f))
	r.FieldsPerRecord, r.LazyQuotes = -1, true
	rows, err := r.ReadAll()
	if err != nil {
		return err
	}
	for _, row := range rows {
		name, wanted := targetPath(row[0])
		if !wanted || !fs.ValidPath(name) || len(row) < 2 {
			continue
		}
		if had := files[name]; had == nil {
			start, err := beginningOf(filepath.Join(root, name))
			if errors.Is(err, fs.ErrNotExist) {
				continue // listed, but not in the wheel
			}
			if err != nil {
				return err
			}
			files[name], sums[name] = &origin{pkgs: []string{pkg}, declares: path.Base(name) == "__init__.py" && declaresNamespace(start)},
				row[1]
		} else if sums[name] != "" && row[1] != "" && sums[name] != row[1] {
			return clash(had.pkgs[0], name, pkg, name)
		} else if !slices.Contains(had.pkgs, pkg) {
			had.pkgs = append(had.pkgs, pkg)
		}
	}
	return nil
}

// beginningOf returns the first bytes of a module of a package, and nothing of other files.
func beginningOf(file string) (*beginning, error) {
	start := &beginning{}
	f, err := os.Open(file)
	if err != nil {
		return start, err
	}
	defer f.Close()
	if filepath.Base(file) != "__init__.py" {
		return start, nil
	}
	_, err = bufio.NewReader(f).WriteTo(start)
	return start, err
}
