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

// format is the version of the layout. It changes when an older Sandpiper would misread the
// directory; databases have their own schema versions.
const format = 1

// Keys of the roots of mounts, and the mount points in a workspace.
const (
	rootWorkspaces = "workspaces"
	privateDir     = "private"
	rootSkills     = "skills"
	rootSessions   = "sessions"
	rootServers    = "servers"
	skillsMount    = "skills"
	sessionsMount  = "sessions"
	serversMount   = "servers"
)

// Files and directories in the private directory of a tenant that are part of a backup.
const (
	suspendedFile = "suspended" // the reason why the tenant is suspended
	tierFile      = "tier"      // as stored
	loginsDir     = "logins"
)

// newPrefix starts the names of incomplete files. No directory of a tenant starts with it.
const newPrefix = ".new-"

// layout is a data directory:
//
//	format                     the number above
//	workspaces/<id>/           visible to code; owned by the tenant's uid
//	projections/skills/<id>/         modules generated from the database, mounted read-only
//	projections/sessions/<id>/       session logs generated from it, mounted read-only
//	projections/servers/<key>/       generated modules of the set of servers with that key
//	projections/servers/<key>.lock   locked while they change; .lock.compared has the times of comparisons
//	projections/servers/<key>+<id>/  the same of one tenant, with types inferred from its results,
//	projections/servers/<key>+<id>.types   which are these
//	private/<id>/tenant.db     the database
//	private/<id>/tenant.db-calls-…    recorded calls of a process that are not in the database yet
//	private/<id>/tenant.db-steps-…    likewise steps of sessions
//	private/<id>/tenant.db-damaged-…  the same of a process that has ended, which cannot be read
//	private/<id>/uid           the tenant's id, if it is not the directory's name
//	private/<id>/use.lock      locked, shared, while a process has the home open; its time is the last use
//	private/<id>/suspended     the reason why the tenant is suspended, in JSON
//	private/<id>/streams/      encrypted answers for MCP clients that resume a stream
//	private/<id>/workflows     its time is that of the last change of a workflow
//	private/<id>/skills.lock   locked while that projection changes
//	private/<id>/sessions.lock likewise
//	uids.lock                  locked while a uid is chosen
//	suspensions                its time is that of the last suspension
//	restoring                  exists, without format, while a backup is restored
//
// <id> is tenant.ID.Dir.
//
// Only its owner can access the directory. The uids of tenants access their data through mounts,
// never by a path through it.
type layout struct {
	root     string
	features []Feature
}

func newLayout(root string) (layout, error) {
	if root == "" {
		return layout{}, fault.New(fault.Invalid, "data directory is missing")
	}
	abs, err := filepath.Abs(root)
	if err != nil {
		return layout{}, fault.Wrap(fault.Unavailable, err, "resolve the data directory %s: the working directory does not exist", root)
	}
	return layout{root: abs}, nil
}

func (l layout) workspaces() string           { return filepath.Join(l.root, rootWorkspaces) }
func (l layout) projections(of string) string { return filepath.Join(l.root, "projections", of) }
func (l layout) private() string              { return filepath.Join(l.root, privateDir) }
func (l layout) formatFile() string           { return filepath.Join(l.root, "format") }
func (l layout) key() *secret.Store {
	return secret.NewStore(filepath.Join(l.root, "logins"), filepath.Join(l.root, "key"))
}
func (l layout) uidLock() string     { return filepath.Join(l.root, "uids.lock") }
func (l layout) restoring() string   { return filepath.Join(l.root, "restoring") }
func (l layout) suspensions() string { return filepath.Join(l.root, "suspensions") }

// paths contains the paths of one tenant.
type paths struct {
	workspace, private, db, useLock, suspended, tier, logins   string
	skillProjection, skillLock, sessionProjection, sessionLock string
}

func (l layout) of(id tenant.ID) paths {
	dir := id.Dir()
	join := func(parent, name string) string { return parent + string(filepath.Separator) + name } // of clean paths, for each request
	private := join(l.private(), dir)
	return paths{
		workspace:         join(l.workspaces(), dir),
		private:           private,
		db:                join(private, "tenant.db"),
		useLock:           join(private, "use.lock"),
		suspended:         join(private, suspendedFile),
		tier:              join(private, tierFile),
		logins:            join(private, loginsDir),
		skillProjection:   join(l.projections(rootSkills), dir),
		skillLock:         join(private, "skills.lock"),
		sessionProjection: join(l.projections(rootSessions), dir),
		sessionLock:       join(private, "sessions.lock"),
	}
}

// make creates the directories, except the private one, which lockUse creates, and the workspace,
// which needs an owner.
func (p paths) make() error {
	if err := mkdir(p.skillProjection, 0o755); err != nil {
		return dirFault(err)
	}
	return dirFault(mkdir(p.sessionProjection, 0o755))
}

// Prepare creates a data directory, or checks an existing one, for a command that opens no home.
func Prepare(root string) error {
	l, err := newLayout(root)
	if err != nil {
		return err
	}
	return preparation{l}.prepare()
}

// preparation creates or checks a data directory.
type preparation struct{ layout }

// prepare creates the data directory, or checks an existing one.
func (l preparation) prepare() error {
	if err := os.MkdirAll(l.root, 0o700); err != nil {
		return l.fault(err)
	}
	if err := l.close(); err != nil {
		return err
	}
	if err := l.checkFormat(); err != nil {
		return err
	}
	for _, dir := range []string{l.workspaces(), l.projections(""), l.projections(rootSkills), l.projections(rootSessions),
		l.projections(rootServers), l.private()} {
		if err := mkdir(dir, 0o711); err != nil {
			return l.fault(err)
		}
	}
	l.removeDeleted()
	l.removeTransfers()
	for _, dir := range []string{l.root, l.private(), filepath.Join(l.root, "audit")} {
		removeUnfinished(dir, newPrefix)
	}
	return l.checkWritable()
}

// close checks the owner of the directory and removes the permissions of others. It refuses a
// directory of another user, who could change its content. It leaves a directory that is not a
// data directory unchanged: checkFormat refuses that.
func (l preparation) close() error {
	fi, err := os.Stat(l.root)
	if err != nil {
		return l.fault(err)
	}
	if !fi.IsDir() {
		return fault.New(fault.Invalid, "the data directory %s is not a directory", l.root)
	}
	if !ownedByUser(fi) {
		return fault.New(fault.Denied, "the data directory %s belongs to another user", l.root).
			WithHint("run Sandpiper as the owner of that directory, or give it a data directory of its own")
	}
	if fi.Mode().Perm()&0o077 == 0 {
		return nil
	}
	if is, err := l.isData(); !is || err != nil {
		return err
	}
	if err := os.Chmod(l.root, 0o700); err != nil {
		return l.fault(err)
	}
	return nil
}

// isData reports whether the directory has a format file, or is empty except for incomplete
// files.
func (l preparation) isData() (bool, error) {
	entries, err := os.ReadDir(l.root)
	if err != nil {
		return false, l.fault(err)
	}
	// This check follows ReadDir because another process may be creating the directory, and
	// it creates this file first.
	if _, err := os.Lstat(l.formatFile()); err == nil {
		return true, nil
	} else if !errors.Is(err, fs.ErrNotExist) {
		return false, l.fault(err)
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), newPrefix) {
			return false, nil
		}
	}
	return true, nil
}

func (l preparation) checkFormat() error {
	if is, err := l.isData(); err != nil {
		return err
	} else if !is {
		if _, err := os.Lstat(l.restoring()); err == nil {
			return fault.New(fault.Unavailable, "a backup is being restored to the data directory %s, or that was interrupted", l.root).
				WithHint("if it was interrupted, restore it again: `sandpiper restore FILE`")
		}
		return fault.New(fault.Invalid, "the directory %s is not empty and is not a Sandpiper data directory", l.root).
			WithHint("use an empty or new directory as the data directory")
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
		return fault.New(fault.Internal, "the file %s is damaged: want a number, such as %d", l.formatFile(), format)
	}
	if have > format {
		return fault.New(fault.Unavailable, "the data directory %s has format %d, this Sandpiper knows formats up to %d", l.root, have,
			format).
			WithHint("a newer Sandpiper has used it: update this one, or give it a data directory of its own")
	}
	return nil
}

// writeFormat creates the complete file atomically. It succeeds if another process created it.
func (l preparation) writeFormat() error {
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

// checkWritable detects a read-only directory at start instead of at the first call.
func (l preparation) checkWritable() error {
	f, err := os.CreateTemp(l.root, newPrefix+"*")
	if err != nil {
		return l.fault(err)
	}
	f.Close()
	os.Remove(f.Name())
	return nil
}

// fault returns an error for the operator; it names the directory.
func (l layout) fault(err error) error {
	switch {
	case errors.Is(err, syscall.EROFS), errors.Is(err, fs.ErrPermission):
		return fault.Wrap(fault.Unavailable, err, "the data directory %s cannot be written", l.root).
			WithHint("make it writable for the user that runs Sandpiper, or set data_dir in the configuration")
	case errors.Is(err, syscall.ENOSPC):
		return fault.Wrap(fault.Exhausted, err, "the disk that holds the data directory %s is full", l.root)
	case errors.Is(err, syscall.ENOTDIR):
		return fault.Wrap(fault.Invalid, err, "the data directory %s cannot be created: a part of the path is a file", l.root)
	}
	hint := "set data_dir in the configuration to another directory"
	if fault.Inconclusive(err) { // it is not unsuitable
		hint = "try again, and check the disk of the data directory"
	}
	reason := "" // of the operating system
	if number, ok := errors.AsType[syscall.Errno](err); ok {
		reason = ": " + number.Error()
	}
	return fault.Wrap(fault.Unavailable, err, "the data directory %s cannot be used%s", l.root, reason).
		WithHint("%s", hint)
}

// dirFault returns an error for a tenant; it names no path.
func dirFault(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, syscall.ENOSPC):
		return fault.Wrap(fault.Exhausted, err, "the disk that holds the data directory is full")
	}
	return fault.Wrap(fault.Unavailable, err, "the tenant's directories cannot be created")
}

// mkdir creates a directory durably, or accepts an existing one.
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
