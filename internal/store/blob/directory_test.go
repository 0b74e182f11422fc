package blob_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/store/blob"
	"github.com/sandpiper-mcp/sandpiper/internal/store/blob/blobtest"
)

func TestMain(m *testing.M) { blobtest.Main(m) }

func TestDirectory(t *testing.T) {
	url := func(t testing.TB) string { return "file://" + filepath.ToSlash(t.TempDir()) }
	blobtest.Run(t, blobtest.Setup{
		URL:      url,
		Missing:  func(t testing.TB) string { return url(t) + "/none" },
		ReadOnly: readOnlyDirectory(),
		Huge:     1 << 30,
	})
}

func open(t testing.TB, url string) blob.Bucket {
	b, err := blob.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

// create creates an object whose body is its key.
func create(t testing.TB, url, key string) {
	if err := open(t, url).Create(t.Context(), key, strings.NewReader(key)); err != nil {
		t.Fatal(err)
	}
}
