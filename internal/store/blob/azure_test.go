package blob_test

import (
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/longtest"
	"github.com/sandpiper-mcp/sandpiper/internal/store/blob"
	"github.com/sandpiper-mcp/sandpiper/internal/store/blob/blobtest"
	"github.com/sandpiper-mcp/sandpiper/internal/store/blob/blobtest/servers"
)

func TestAzurite(t *testing.T) {
	longtest.SkipSlow(t)
	a := servers.Azurite(t)
	url := func(t testing.TB) string { return a.URL(a.Container(t), a.Address) }
	blobtest.Run(t, blobtest.Setup{
		URL: url,
		Missing: func(t testing.TB) string {
			a.Container(t)
			return a.URL("missing", a.Address)
		},
		Denied: func(t testing.TB) string {
			defer a.SetKey(t, "d3Jvbmc=")
			return url(t)
		},
		ReadOnly: func(t testing.TB, use func(blob.Bucket)) {
			container := url(t)
			create(t, container, "kept")
			a.SetReader(t)
			use(open(t, container))
		},
		Via: func(t testing.TB, address func(string) string) string {
			return a.URL(a.Container(t), address(a.Address))
		},
		Listed: 1100, // it is slow
	})
}
