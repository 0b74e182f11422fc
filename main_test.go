package sandpiper_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/sandpiper-mcp/sandpiper"
)

// noSandbox is the reason why code cannot be executed here; nil if it can.
var noSandbox error

// TestMain runs all tests with one unpacked Python and directories of their own.
func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "sandpiper-test-")
		if err != nil {
			panic(err)
		}
		defer os.RemoveAll(dir)
		for name, path := range map[string]string{"XDG_CACHE_HOME": "cache", "XDG_CONFIG_HOME": "config", "XDG_DATA_HOME": "data"} {
			if name == "XDG_CACHE_HOME" {
				keepGoCache()
			}
			os.Setenv(name, dir+"/"+path)
		}
		flag.Parse()
		if noSandbox = execute(dir + "/probe"); noSandbox != nil {
			if os.Getenv("REQUIRE_SANDBOX") != "" {
				fmt.Fprintln(os.Stderr, "code cannot be executed here, and REQUIRE_SANDBOX is set:", noSandbox)
				return 1
			}
			flag.Set("test.run", "^Test") // examples cannot be skipped
		}
		return m.Run()
	}())
}

// keepGoCache keeps the build cache of go, whose default depends on XDG_CACHE_HOME.
func keepGoCache() {
	if os.Getenv("GOCACHE") == "" {
		if dir, err := os.UserCacheDir(); err == nil {
			os.Setenv("GOCACHE", dir+"/go-build")
		}
	}
}

func execute(dir string) error {
	c, err := sandpiper.Open(context.Background(), sandpiper.Config{DataDir: dir})
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = c.Execute(context.Background(), "1")
	return err
}

// open opens a client, or skips the test where code cannot be executed.
func open(t testing.TB, cfg sandpiper.Config) *sandpiper.Client {
	t.Helper()
	if noSandbox != nil {
		t.Skip("code cannot be executed here:", noSandbox)
	}
	if cfg.DataDir == "" {
		cfg.DataDir = t.TempDir()
	}
	c, err := sandpiper.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}
