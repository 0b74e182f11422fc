package blob_test

import (
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/longtest"
	"github.com/sandpiper-mcp/sandpiper/internal/store/blob/blobtest"
	"github.com/sandpiper-mcp/sandpiper/internal/store/blob/blobtest/servers"
)

func TestFakeGCS(t *testing.T) {
	longtest.SkipSlow(t)
	g := servers.FakeGCS(t)
	blobtest.Run(t, blobtest.Setup{
		URL: func(t testing.TB) string { return g.URL(g.Bucket(t), g.Address) },
		Missing: func(t testing.TB) string {
			g.Bucket(t)
			return g.URL("missing", g.Address)
		},
		Listed:   1100, // it is slow
		InMemory: true,
		Via:      func(t testing.TB, address func(string) string) string { return g.URL(g.Bucket(t), address(g.Address)) },
	})
}
