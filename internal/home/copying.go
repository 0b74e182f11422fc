package home

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/home/journal"
	"github.com/sandpiper-mcp/sandpiper/internal/home/session"
	"github.com/sandpiper-mcp/sandpiper/internal/home/workspace"
	"github.com/sandpiper-mcp/sandpiper/internal/store"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

// Original is what a continuous copy of a tenant is made from, while the tenant is in use.
type Original struct{ *Home }

// Database stores in the database what is next to it, and returns it.
func (o Original) Database(ctx context.Context) (*store.DB, error) {
	r := o.parts
	return r.db, errors.Join(journal.Trim(ctx, r.journal), session.Trim(ctx, r.sessions))
}

// Files writes the other private files, and the files of the workspace that are not the same as before: see
// workspace.ArchiveChanged. The names of private files begin with "private/", and those of the workspace with
// "files/".
func (o Original) Files(ctx context.Context, to workspace.Sink, same func(path string, s workspace.Stamp) bool) (workspace.Archived,
	error) {
	private, err := paths{private: o.parts.private, logins: path.Join(o.parts.private, loginsDir)}.readPrivate()
	if err != nil {
		return workspace.Archived{}, err
	}
	for _, f := range private {
		if err := to.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "private/" + f.name, Size: int64(len(f.content)),
			Mode: 0o600}); err != nil {
			return workspace.Archived{}, err
		}
		if _, err := to.Write(f.content); err != nil {
			return workspace.Archived{}, err
		}
	}
	return workspace.ArchiveChanged(ctx, o.parts.files, below{to, "files/"},
		func(p string, s workspace.Stamp) bool { return same("files/"+p, s) },
		mountPoints...)
}

// below is a Sink of names below a directory.
type below struct {
	workspace.Sink
	dir string
}

// WriteHeader implements workspace.Sink.
func (b below) WriteHeader(h *tar.Header) error {
	h.Name = b.dir + h.Name
	if h.Typeflag == tar.TypeLink {
		h.Linkname = b.dir + h.Linkname
	}
	return b.Sink.WriteHeader(h)
}

// EntryOf returns the entry of a backup that a file of an Original is; see Directory.Restore.
func EntryOf(id tenant.ID, h tar.Header) (*tar.Header, error) {
	name := func(n string) (string, error) {
		if rest, ok := strings.CutPrefix(n, "private/"); ok {
			return path.Join(privateDir, id.Dir(), rest), nil
		}
		if rest, ok := strings.CutPrefix(n, "files/"); ok {
			return path.Join(rootWorkspaces, id.Dir(), rest), nil
		}
		return "", fmt.Errorf("the name %.80q is not that of a file of a tenant", n)
	}
	var err error
	if h.Name, err = name(h.Name); err == nil && h.Typeflag == tar.TypeLink {
		h.Linkname, err = name(h.Linkname)
	}
	return &h, err
}

// DatabaseEntry returns the entry of the database of a tenant, and WorkspaceEntry that with which its workspace begins.
func DatabaseEntry(id tenant.ID, size int64) *tar.Header {
	return &tar.Header{Typeflag: tar.TypeReg, Name: path.Join(privateDir, id.Dir(), databaseEntry), Size: size, Mode: 0o600}
}

// WorkspaceEntry returns the entry with which the workspace of a tenant begins.
func WorkspaceEntry(id tenant.ID) *tar.Header {
	return &tar.Header{Typeflag: tar.TypeDir, Name: path.Join(rootWorkspaces, id.Dir()) + "/", Mode: 0o700}
}

// Version returns a text that is another one after a process has begun to use a tenant, and after a change of the database,
// of private files, or of what is at the top of the workspace: "" if there is no database. Nothing is opened.
func (t Directory) Version(id tenant.ID) string {
	p := t.layout.of(id)
	var b strings.Builder
	for i, name := range []string{p.db, p.db + "-wal", p.tier, p.suspended, p.logins, p.useLock, p.workspace} {
		info, err := os.Stat(name)
		if err != nil {
			if i == 0 {
				return ""
			}
			continue
		}
		fmt.Fprintf(&b, "%d:%d:%d ", i, info.Size(), info.ModTime().UnixNano())
	}
	return b.String()
}
