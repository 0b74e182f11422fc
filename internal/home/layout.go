package home

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/store/durable"
	"github.com/sandpiper-mcp/sandpiper/internal/store/secret"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

// format is the number of the layout described here. It changes when an older
// Sandpiper would misread the directory; databases have schemas of their own.
const format = 1

// Keys of the roots of mounts, and the mount points in a workspace.
const (
	rootWorkspaces = "workspaces"
	rootSkills     = "skills"
	rootSessions   = "sessions"
	rootServers    = "servers"
	skillsMount    = "skills"
	sessionsMount  = "sessions"
	serversMount   = "servers"
)

// newPrefix begins the names of what is not there yet. No tenant's id does.
const newPrefix = ".new-"

// layout is a data directory:
//
//	format                     the number above
//	workspaces/<id>/           all that code may see; belongs to the tenant's uid
//	projections/skills/<id>/         modules made from the database, mounted read-only
//	projections/sessions/<id>/       logs of sessions made from it, likewise
//	projections/servers/<key>/       generated modules of the servers that a key stands for
//	projections/servers/<key>.lock   held while they change
//	private/<id>/tenant.db     the database
//	private/<id>/skills.lock   held while the view of that name changes
//	private/<id>/sessions.lock likewise
//	uids.lock                  held while a uid is chosen
//
// The directory is closed to everybody but its owner; what must be reached by
// the uids of tenants is reached by mounts, never by a path through it.
type layout struct{ root string }

func newLayout(root string) (layout, error) {
	if root == "" {
		return layout{}, fault.New(fault.Invalid, "no data directory was named")
	}
	abs, err := filepath.Abs(root)
	if err != nil {
		return layout{}, fault.Wrap(fault.Unavailable, err, "the working directory is gone, in which the data directory %s was to be", root)
	}
	return layout{abs}, nil
}

func (l layout) workspaces() string     { return filepath.Join(l.root, "workspaces") }
func (l layout) views(of string) string { return filepath.Join(l.root, "projections", of) }
func (l layout) private() string        { return filepath.Join(l.root, "private") }
func (l layout) formatFile() string     { return filepath.Join(l.root, "format") }
func (l layout) key() *secret.Store {
	return secret.NewStore(filepath.Join(l.root, "logins"), filepath.Join(l.root, "key"))
}
func (l layout) uidLock() string { return filepath.Join(l.root, "uids.lock") }

// places are the paths of one tenant.
type places struct {
	workspace, private, db                         string
	skillView, skillLock, sessionView, sessionLock string
}

func (l layout) of(id tenant.ID) places {
	private := filepath.Join(l.private(), id.String())
	return places{
		workspace:   filepath.Join(l.workspaces(), id.String()),
		private:     private,
		db:          filepath.Join(private, "tenant.db"),
		skillView:   filepath.Join(l.views(rootSkills), id.String()),
		skillLock:   filepath.Join(private, "skills.lock"),
		sessionView: filepath.Join(l.views(rootSessions), id.String()),
		sessionLock: filepath.Join(private, "sessions.lock"),
	}
}

// make makes the directories but the workspace, which needs an owner.
func (p places) make() error {
	if err := mkdir(p.private, 0o700); err != nil {
		return dirFault(err)
	}
	if err := mkdir(p.skillView, 0o755); err != nil {
		return dirFault(err)
	}
	return dirFault(mkdir(p.sessionView, 0o755))
}

// prepare makes the data directory, or checks the one that is there.
func (l layout) prepare() error {
	if err := os.MkdirAll(l.root, 0o700); err != nil {
		return l.fault(err)
	}
	if err := l.close(); err != nil {
		return err
	}
	if err := l.checkFormat(); err != nil {
		return err
	}
	for _, dir := range []string{l.workspaces(), l.views(""), l.views(rootSkills), l.views(rootSessions), l.views(rootServers), l.private()} {
		if err := mkdir(dir, 0o711); err != nil {
			return l.fault(err)
		}
	}
	return l.checkWritable()
}

// close checks whose the directory is, and closes it to others. Another's is
// refused, since that other could change what we rely on. One that is not ours
// to judge yet is left as it is: checkFormat refuses it.
func (l layout) close() error {
	fi, err := os.Stat(l.root)
	if err != nil {
		return l.fault(err)
	}
	if !fi.IsDir() {
		return fault.New(fault.Invalid, "the data directory %s is not a directory", l.root)
	}
	if !ours(fi) {
		return fault.New(fault.Denied, "the data directory %s belongs to another user", l.root).
			WithHint("run Sandpiper as the owner of that directory, or give it a data directory of its own")
	}
	if fi.Mode().Perm()&0o077 == 0 || !l.isData() {
		return nil
	}
	if err := os.Chmod(l.root, 0o700); err != nil {
		return l.fault(err)
	}
	return nil
}

// isData reports whether the directory is a data directory or may become one:
// it has a format, or nothing in it but the beginnings of one.
func (l layout) isData() bool {
	entries, err := os.ReadDir(l.root)
	if err != nil {
		return false
	}
	// Looked for after the list was made: another process may just be making it,
	// and it makes this first.
	if _, err := os.Lstat(l.formatFile()); err == nil {
		return true
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), newPrefix) {
			return false
		}
	}
	return true
}

func (l layout) checkFormat() error {
	if !l.isData() {
		return fault.New(fault.Invalid, "the directory %s holds something else than Sandpiper's data", l.root).
			WithHint("name an empty or new directory as the data directory")
	}
	b, err := os.ReadFile(l.formatFile())
	if errors.Is(err, fs.ErrNotExist) {
		if err := l.writeFormat(); err != nil {
			return l.fault(err)
		}
		b, err = os.ReadFile(l.formatFile())
	}
	if err != nil {
		return l.fault(err)
	}
	have, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil || have < 1 {
		return fault.New(fault.Internal, "the file %s is damaged: it should hold a number, such as %d", l.formatFile(), format)
	}
	if have > format {
		return fault.New(fault.Unavailable, "the data directory %s has format %d, this Sandpiper knows formats up to %d", l.root, have, format).
			WithHint("a newer Sandpiper has used it: update this one, or give it a data directory of its own")
	}
	return nil
}

// writeFormat gives the file its name when it is whole; another process may
// have been faster.
func (l layout) writeFormat() error {
	f, err := os.CreateTemp(l.root, newPrefix+"*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = fmt.Fprintln(f, format)
	if err == nil {
		err = f.Sync()
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Link(f.Name(), l.formatFile())
	}
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return durable.SyncDir(l.root)
}

// checkWritable finds out at start what else the first call would.
func (l layout) checkWritable() error {
	f, err := os.CreateTemp(l.root, newPrefix+"*")
	if err != nil {
		return l.fault(err)
	}
	f.Close()
	os.Remove(f.Name())
	return nil
}

// fault is for whoever starts Sandpiper, so it names the directory.
func (l layout) fault(err error) error {
	switch {
	case errors.Is(err, syscall.EROFS), errors.Is(err, fs.ErrPermission):
		return fault.Wrap(fault.Unavailable, err, "the data directory %s cannot be written", l.root).
			WithHint("it must be writable for the user that runs Sandpiper; name another one with data_dir in the configuration")
	case errors.Is(err, syscall.ENOSPC):
		return fault.Wrap(fault.Exhausted, err, "the disk that holds the data directory %s is full", l.root)
	case errors.Is(err, syscall.ENOTDIR):
		return fault.Wrap(fault.Invalid, err, "the data directory %s cannot be made: a part of the path is a file", l.root)
	}
	return fault.Wrap(fault.Unavailable, err, "the data directory %s cannot be used", l.root)
}

// dirFault is for whoever acts for a tenant, so it names nothing.
func dirFault(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, syscall.ENOSPC):
		return fault.Wrap(fault.Exhausted, err, "the disk that holds the data directory is full")
	}
	return fault.Wrap(fault.Unavailable, err, "the tenant's directories cannot be made")
}

// mkdir makes a directory that survives a loss of power, or accepts the one
// that is there.
func mkdir(path string, perm fs.FileMode) error {
	err := os.Mkdir(path, perm)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := os.Chmod(path, perm); err != nil { // whatever the umask
		return err
	}
	return durable.SyncDir(filepath.Dir(path))
}
