package process

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// An id map that cannot be read is an error, not one without ids for tenants, who would all get the
// uid of the daemon.
func TestUnreadableIDMapIsAnError(t *testing.T) {
	if _, _, err := mapped("/proc/self/no_map", FirstUID); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(),
		"reading which ids") {
		t.Error(err)
	}
	if os.Geteuid() != 0 {
		return // the maps are not read
	}
	release := exhaust(t)
	ids, err := readIDs()
	release()
	if !fault.NoDescriptors(err) || ids.tenants != 0 || ids.uid != nil {
		t.Errorf("%+v, %v", ids, err)
	}
	if ids, err = readIDs(); err != nil || len(ids.uid) == 0 {
		t.Errorf("%+v, %v", ids, err)
	}
}
