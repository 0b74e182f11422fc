//go:build linux

package worker_test

import (
	"context"
	"strings"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/worker"
)

func TestRefusedStatusRequiresCheck(t *testing.T) {
	const forged = "import os, struct\np = b'{\"status\":\"refused\",\"error\":\"no\",\"error_type\":\"X\"}'\nos.write(%s.fd, " +
		"struct.pack('>IcI', len(p), b'D', 1) + p)\nos._exit(0)"
	w, h := open(t, worker.Limits{}), newHost()
	o := w.run(context.Background(), t, strings.Replace(forged, "%s", "save_skill.__self__._channel", 1), "", h)
	if o.Status != sandbox.Crashed || !strings.Contains(o.Error, "protocol") {
		t.Errorf("%+v", o)
	}
}
