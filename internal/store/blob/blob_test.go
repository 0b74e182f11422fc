package blob_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/store/blob"
)

// Errors of Open name the URL without what may be secret.
func TestOpenRefusesURLs(t *testing.T) {
	for url, message := range map[string]string{
		"":                                  `bucket  has an unknown scheme; use file://`,
		"ftp://user:secret@host/a?b=secret": `bucket ftp://host/a has an unknown scheme`,
		"file://secret:secret@host/%zz":     "the URL of the bucket cannot be read",
		"file://relative/dir":               "bucket file://relative/dir: it must be file:// and an absolute path",
		"file:///tmp?secret=secret":         `bucket file:///tmp has the unknown parameter "secret"`,
		"s3://user:secret@bucket":           "the URL of bucket s3://bucket has credentials",
		"s3://bucket?endpoint=secret":       "bucket s3://bucket: its endpoint must be a URL",
		"s3://bucket?path_style=yes":        `bucket s3://bucket: path_style is "yes"; use true or false`,
		"s3://bucket/../x":                  "bucket s3://bucket/../x: its prefix is no valid key",
		"s3://bucket--usw2-az1--x-s3":       "bucket s3://bucket--usw2-az1--x-s3: directory buckets of S3 Express list without order",
		"file:///dev/null":                  "bucket file:///dev/null: it is not a directory",
	} {
		_, err := blob.Open(t.Context(), url)
		if err == nil || !strings.HasPrefix(fault.Message(err), message) || fault.KindOf(err) != fault.Invalid {
			t.Errorf("%s: %v, want %q", url, err, message)
		}
		if err != nil && strings.Contains(strings.ReplaceAll(err.Error(), `parameter "secret"`, ""), "secret") {
			t.Errorf("%s: a secret is in the error: %v", url, err)
		}
	}
}

// A key must not be a directory of another.
func TestDirectoryRefusesKeysBelowObjects(t *testing.T) {
	b := open(t, "file://"+t.TempDir())
	for _, key := range []string{"a", "b/c"} {
		if err := b.Create(t.Context(), key, strings.NewReader("x")); err != nil {
			t.Fatal(err)
		}
	}
	for _, key := range []string{"a/b", "b"} {
		err := b.Create(t.Context(), key, strings.NewReader("x"))
		if fault.KindOf(err) != fault.Invalid || errors.Is(err, blob.ErrExists) {
			t.Errorf("%s: %v", key, err)
		}
		if _, err := b.Get(t.Context(), key, blob.Range{}); fault.KindOf(err) != fault.NotFound {
			t.Errorf("%s: %v", key, err)
		}
		if err := b.Delete(t.Context(), key); err != nil {
			t.Errorf("%s: %v", key, err)
		}
	}
}
