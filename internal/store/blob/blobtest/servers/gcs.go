package servers

import (
	"net/http"
	"net/url"
	"os/exec"
	"strings"
	"testing"
)

// GCS is fake-gcs-server. It keeps objects in memory, and checks no credentials.
type GCS struct {
	Address string
	names   bucketNames
}

// FakeGCS starts fake-gcs-server.
func FakeGCS(t testing.TB) *GCS {
	t.Helper()
	address, port := freeAddress(t)
	start(t, address, exec.Command(find(t, "fake-gcs-server"), "-backend", "memory", "-scheme", "http", "-host", "127.0.0.1", "-port", port,
		"-public-host", address, "-external-url", "http://"+address, "-log-level", "error", "-data", t.TempDir()))
	return &GCS{Address: address}
}

// Bucket creates a bucket, makes the server that of this process, and returns the bucket's name.
func (g *GCS) Bucket(t testing.TB) string {
	t.Helper()
	t.Setenv("STORAGE_EMULATOR_HOST", g.Address)
	name := g.names.next()
	answer, err := http.Post("http://"+g.Address+"/storage/v1/b?project=test", "application/json", strings.NewReader(`{"name":"`+name+`"}`))
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		t.Fatal(answer.Status)
	}
	return name
}

// URL returns the URL of a bucket that is reached at an address.
func (g *GCS) URL(bucket, address string) string {
	return "gs://" + bucket + "?endpoint=" + url.QueryEscape("http://"+address)
}
