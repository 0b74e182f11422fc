package cluster

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/restic/chunker"

	"github.com/sandpiper-mcp/sandpiper/internal/config"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/store/blob"
	"github.com/sandpiper-mcp/sandpiper/internal/store/bucketlog"
	"github.com/sandpiper-mcp/sandpiper/internal/store/durable"
	"github.com/sandpiper-mcp/sandpiper/internal/store/secret"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

// bucketStore is the bucket of a data directory.
type bucketStore struct {
	bucket blob.Bucket
	dir    string // of the data
	key    []byte
	pol    chunker.Pol
}

// openStore opens the bucket of a configuration, with the master key of its data directory.
func openStore(ctx context.Context, c *config.Config) (*bucketStore, error) {
	master, err := secret.KeyFile(filepath.Join(c.DataDir, "key")).ReadOrCreate()
	if err != nil {
		return nil, err
	}
	return openStoreWith(ctx, settings(c).Store.Bucket, c.DataDir, master)
}

func openStoreWith(ctx context.Context, url, dir string, master []byte) (*bucketStore, error) {
	if url == "" {
		return nil, errNoBucket
	}
	key, err := secret.Derive(master, "bucket")
	if err != nil {
		return nil, err
	}
	b, err := blob.Open(ctx, url)
	if err != nil {
		return nil, err
	}
	s := &bucketStore{bucket: b, dir: dir, key: key}
	// The boundaries of contents depend on the key, so that the lengths of contents do not tell which files they are of.
	s.pol, err = polynomial(key)
	return s, err
}

// polynomial returns the polynomial of a key.
func polynomial(key []byte) (chunker.Pol, error) {
	sum := sha256.Sum256(append([]byte("polynomial\x00"), key...))
	return chunker.DerivePolynomial(&repeated{sum: sum})
}

// repeated is an endless stream that begins with a sum.
type repeated struct {
	sum  [sha256.Size]byte
	left []byte
}

// Read implements io.Reader.
func (r *repeated) Read(p []byte) (int, error) {
	if len(r.left) == 0 {
		r.sum = sha256.Sum256(r.sum[:])
		r.left = r.sum[:]
	}
	n := copy(p, r.left)
	r.left = r.left[n:]
	return n, nil
}

func (b *bucketStore) close() error { return b.bucket.Close() }

// of returns the log of a tenant.
func (b *bucketStore) of(id tenant.ID) (*bucketlog.Log, error) { return b.named(id.Dir()) }

func (b *bucketStore) named(name string) (*bucketlog.Log, error) {
	return bucketlog.New(b.bucket, name, b.key)
}

// names returns the names of all logs.
func (b *bucketStore) names(ctx context.Context) (all []string, err error) {
	for after := ""; ; {
		name := ""
		for o, err := range b.bucket.List(ctx, "t/", after) {
			if err != nil {
				return nil, err
			}
			name, _, _ = strings.Cut(strings.TrimPrefix(o.Key, "t/"), "/")
			break
		}
		if name == "" {
			return all, nil
		}
		all = append(all, name)
		after = "t/" + name + "/g" // after all hexadecimal numbers
	}
}

// spool returns a new file without a name, which is deleted when it is closed.
func (b *bucketStore) spool() (*os.File, error) {
	f, err := os.CreateTemp(b.dir, ".new-entry-*")
	if err != nil {
		return nil, fault.Wrap(fault.Unavailable, err, "no file can be created in the data directory")
	}
	return f, os.Remove(f.Name())
}

// nodeFile contains the name of a data directory in its entries.
const nodeFile = "node"

// errOther is the error of a data directory that copies nothing, because the bucket is in use.
var errOther = fault.New(fault.Denied, "the bucket has the copies of another data directory, which this one does not continue").
	WithHint("if the other one is not used any more: `sandpiper store adopt`; otherwise name another prefix of the bucket in store.bucket")

// nodeFor returns the name of the data directory. One without a name, such as one that was restored, gets it if the bucket has
// no copies: those of another one are continued only after adopt. The bucket is probed then.
func (b *bucketStore) nodeFor(ctx context.Context) (string, error) {
	text, err := os.ReadFile(filepath.Join(b.dir, nodeFile))
	if err == nil {
		return string(text), nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	names, err := b.names(ctx)
	if err != nil {
		return "", err
	}
	if len(names) > 0 {
		return "", errOther
	}
	if err := blob.Probe(ctx, b.bucket); err != nil {
		return "", err
	}
	return b.adopt()
}

// adopt names the data directory, so that it continues the copies in the bucket.
func (b *bucketStore) adopt() (string, error) {
	name := rand.Text()
	return name, durable.WriteFile(filepath.Join(b.dir, nodeFile), []byte(name))
}
