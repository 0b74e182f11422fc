package daemon_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/config"
	"github.com/sandpiper-mcp/sandpiper/internal/daemon"
	"github.com/sandpiper-mcp/sandpiper/internal/home/workspace"
)

func TestReadinessChecksDiskSpace(t *testing.T) {
	for reserve, want := range map[int64]int{1: http.StatusOK, 1 << 60: http.StatusServiceUnavailable} {
		d := start(t, daemon.Config{Config: config.Config{Workspace: config.Workspace{Quota: workspace.Quota{Reserve: reserve}}}})
		ctx, stop := context.WithCancel(t.Context())
		ln, err := d.HTTP.Listen(ctx, "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- d.HTTP.Serve(ctx, ln) }()
		res, err := http.Get("http://" + ln.Addr().String() + "/readyz")
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(res.Body)
		res.Body.Close()
		if res.StatusCode != want || want != http.StatusOK && !strings.Contains(string(text), "nearly full") {
			t.Errorf("with a reserve of %d: %d %s", reserve, res.StatusCode, text)
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}
