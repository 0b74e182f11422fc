package memory_test

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sandpiper-mcp/sandpiper/internal/memory"
)

func TestMachineLeavesPartOfDataLimit(t *testing.T) {
	var own unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_DATA, &own); err != nil {
		t.Fatal(err)
	}
	whole := memory.Machine()
	low := own
	low.Cur = min(own.Cur, 1200*mb)
	if err := unix.Setrlimit(unix.RLIMIT_DATA, &low); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := unix.Setrlimit(unix.RLIMIT_DATA, &own); err != nil {
			t.Error(err)
		}
	}()
	if got, want := memory.Machine(), min(whole, int64(low.Cur/3*2)); got != want {
		t.Errorf("of %d bytes of data %d are used, want %d", low.Cur, got, want)
	}
}
