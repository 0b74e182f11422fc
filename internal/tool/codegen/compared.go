package codegen

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"
)

// compared records when packages were compared with their definitions, file by file. The next process
// believes it if it runs the same program, whose generator is the same, and the system has not started
// since, so that no file was lost with the power.
type compared struct {
	Program string               `json:"program"`
	Boot    string               `json:"boot"`
	At      map[string]time.Time `json:"at"` // by module
	changed bool
}

// clockSteps is more than the precision of the times of files: one that was written so long before the
// comparison was not changed after it.
const clockSteps = 2 * time.Second

// readCompared returns what is recorded in a file, or an empty record if this process must compare all.
func readCompared(path string) compared {
	now := compared{Program: ProgramID(), Boot: bootID(), At: map[string]time.Time{}}
	var was compared
	b, err := os.ReadFile(path)
	if err != nil || json.Unmarshal(b, &was) != nil || now.Program == "" || now.Boot == "" || was.Program != now.Program ||
		was.Boot != now.Boot || was.At == nil {
		return now
	}
	return was
}

// unchanged reports whether a package was compared, by any process, and has not changed since.
func (d *Dir) unchanged(root *os.Root, module string) bool {
	d.mu.Lock()
	at := d.compared.At[module]
	d.mu.Unlock()
	return !at.IsZero() && isOlder(root, module, at.Add(-clockSteps))
}

// noteCompared records that every file of a package was compared or written.
func (d *Dir) noteCompared(module string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.compared.At[module], d.compared.changed = time.Now(), true
}

// saveCompared writes the record if it has changed. It does not sync the file: one that is lost or
// incomplete has no effect.
func (d *Dir) saveCompared() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.compared.changed {
		return nil
	}
	d.compared.changed = false
	b, err := json.Marshal(d.compared)
	if err != nil { // strings and times only
		panic(err)
	}
	return os.WriteFile(d.record, b, 0o600)
}

// isOlder reports whether all that a package consists of was written before at, and is readable by all.
func isOlder(root *os.Root, module string, at time.Time) bool {
	if info, err := root.Lstat(module); err != nil || !info.IsDir() || info.ModTime().After(at) {
		return false
	}
	dir, err := root.OpenRoot(module)
	if err != nil {
		return false
	}
	defer dir.Close()
	entries, err := fs.ReadDir(dir.FS(), ".")
	if err != nil {
		return false
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || !info.Mode().IsRegular() || info.Mode().Perm()&0o444 != 0o444 || info.ModTime().After(at) {
			return false
		}
	}
	return true
}

// ProgramID identifies the file of this program, "" if it is not known.
func ProgramID() string {
	path, err := os.Executable()
	if err != nil {
		return ""
	}
	info, err := os.Stat(path)
	if err != nil {
		return ""
	}
	return fmt.Sprint(info.Size(), " ", info.ModTime().UnixNano())
}

// bootID identifies the time since the system was started, "" if it is not known.
func bootID() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}
