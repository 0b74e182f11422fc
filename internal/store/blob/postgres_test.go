package blob_test

import (
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/longtest"
	"github.com/sandpiper-mcp/sandpiper/internal/store/blob"
	"github.com/sandpiper-mcp/sandpiper/internal/store/blob/blobtest"
	"github.com/sandpiper-mcp/sandpiper/internal/store/blob/blobtest/servers"
)

func TestPostgres(t *testing.T) {
	longtest.SkipSlow(t)
	p := servers.StartPostgres(t)
	blobtest.Run(t, blobtest.Setup{
		URL:     func(t testing.TB) string { return p.OwnerURL(p.Database(t), p.Address) },
		Missing: func(t testing.TB) string { return p.OwnerURL("missing", p.Address) },
		Denied:  func(t testing.TB) string { return p.URL(p.Database(t), "admin", "wrong", p.Address) },
		ReadOnly: func(t testing.TB, use func(blob.Bucket)) {
			database := p.Database(t)
			create(t, p.OwnerURL(database, p.Address), "kept")
			p.AllowReading(t, database)
			use(open(t, p.ReaderURL(database)))
		},
		Via: func(t testing.TB, address func(string) string) string {
			return p.OwnerURL(p.Database(t), address(p.Address))
		},
	})
}
