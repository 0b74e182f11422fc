package process

import (
	"context"
	"os"
	"testing"
)

// scratch and tests live as long as the test binary.
var (
	scratch string
	tests   context.Context
)

func TestMain(m *testing.M) {
	if config := os.Getenv("PROCESS_TEST_DAEMON"); config != "" {
		beDaemon(config)
	}
	os.Exit(func() int {
		var err error
		if scratch, err = os.MkdirTemp("", "process-test-"); err != nil {
			panic(err)
		}
		defer os.RemoveAll(scratch)
		var cancel context.CancelFunc
		tests, cancel = context.WithCancel(context.Background())
		defer cancel()
		return m.Run()
	}())
}
