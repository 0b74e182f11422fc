package home

import (
	"context"
	"io/fs"
	"os"
	"path"
	"slices"

	"github.com/sandpiper-mcp/sandpiper/internal/store"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

// Names returns the rows of a query for names in a tenant's database, for the completion of a
// command line. It opens no home: it takes no lock, creates and changes nothing, and does not
// count as a use of the tenant.
func Names(ctx context.Context, root string, id tenant.ID, query string) ([]store.Name, error) {
	l, err := newLayout(root)
	if err != nil {
		return nil, err
	}
	return store.Names(ctx, l.of(id).db, query)
}

// FileNames returns the names of the entries of a directory in a tenant's workspace; those of
// directories end with a slash. Like Names, it changes nothing.
func FileNames(root string, id tenant.ID, dir string) (names []string, err error) {
	l, err := newLayout(root)
	if err != nil {
		return nil, err
	}
	workspace, err := os.OpenRoot(l.of(id).workspace) // code in the sandbox may have created links
	if err != nil {
		return nil, err
	}
	defer workspace.Close()
	dir = path.Clean(dir)
	entries, err := fs.ReadDir(workspace.FS(), dir)
	for _, e := range entries {
		name := e.Name()
		if dir == "." && slices.Contains([]string{skillsMount, sessionsMount, serversMount}, name) {
			continue // an empty mount point
		}
		if e.IsDir() {
			name += "/"
		}
		names = append(names, name)
	}
	return names, err
}

// TenantNames returns the ids of the tenants that have data, sorted. Like Names, it changes
// nothing.
func TenantNames(root string) (ids []string, err error) {
	l, err := newLayout(root)
	if err != nil {
		return nil, err
	}
	dirs, err := os.ReadDir(l.private())
	for _, d := range dirs {
		if id, ok, _ := l.idOf(d.Name()); ok {
			ids = append(ids, id.String())
		}
	}
	slices.Sort(ids)
	return ids, err
}
