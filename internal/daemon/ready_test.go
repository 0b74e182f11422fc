package daemon_test

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/config"
	"github.com/sandpiper-mcp/sandpiper/internal/daemon"
	"github.com/sandpiper-mcp/sandpiper/internal/store"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

// spoil overwrites the end of a file, which nothing reads at first.
func spoil(path string) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	copy(b[len(b)/2/4096*4096:], strings.Repeat("\xff", len(b)))
	return os.WriteFile(path, b, 0o600)
}

// newerSchema opens a database as a newer Sandpiper does.
func newerSchema(path string) error {
	var steps []store.Migration
	for n := range 50 {
		steps = append(steps, store.Migration{Number: n + 1, Name: "later", SQL: "SELECT 1"})
	}
	db, err := store.Open(context.Background(), path, steps)
	if err != nil {
		return err
	}
	return db.Close()
}

// The damage of one tenant's database affects only that tenant.
func TestDamagedDatabaseAffectsOneTenant(t *testing.T) {
	for name, harm := range map[string]func(db string) error{
		"damaged at the beginning": func(db string) error { return os.WriteFile(db, []byte(strings.Repeat("no database. ", 1000)), 0o600) },
		"truncated":                func(db string) error { return os.Truncate(db, 100) },
		"damaged somewhere":        spoil,
		"deleted":                  os.Remove,
	} {
		t.Run(name, func(t *testing.T) {
			cfg := daemon.Config{Config: config.Config{DataDir: filepath.Join(t.TempDir(), "data")}}
			d := start(t, cfg)
			alice, err := tenant.Parse("alice")
			if err == nil {
				err = d.Tenants.Create(t.Context(), alice)
			}
			db := filepath.Join(cfg.DataDir, "private", "alice", "tenant.db")
			if err := errors.Join(err, d.Close(), os.RemoveAll(db+"-wal"), os.RemoveAll(db+"-shm"), harm(db)); err != nil {
				t.Fatal(err)
			}
			url := serveTokens(t, cfg)
			for transport, ask := range transports {
				list := call("list_workspace_files", `{}`)
				if got := ask(t, url, ownerToken, list); !strings.Contains(got, "files") || strings.Contains(got, "sandpiper restore") {
					t.Errorf("%s: another tenant gets %s", transport, got)
				}
				if got := ask(t, url, aliceToken, list); !strings.Contains(got, "sandpiper tenant suspend alice") || !strings.Contains(got,
					"sandpiper restore FILE --tenant alice --replace") {
					t.Errorf("%s: the tenant gets %s", transport, got)
				}
			}
			if code, body := get(t, url+"/readyz"); code != http.StatusOK {
				t.Errorf("%d %s", code, body)
			}
		})
	}
}

func TestReadinessChecksDatabases(t *testing.T) {
	for name, c := range map[string]struct {
		harm    func(db string) error
		says    string
		running string // what it says while it runs; "" if SQLite still has in memory what was there
	}{
		"damaged at the beginning": {func(db string) error {
			return os.WriteFile(db, []byte(strings.Repeat("no database. ", 1000)),
				0o600)
		}, "the database is damaged", ""},
		"damaged somewhere": {spoil, "the database is damaged", ""},
		"deleted":           {os.Remove, "the tenant's database is gone", "deleted or replaced"},
		"newer":             {newerSchema, "supports versions up to", "supports versions up to"},
	} {
		for when, says := range map[string]string{"at start": c.says, "while it runs": c.running} {
			if says == "" {
				continue
			}
			t.Run(name+" "+when, func(t *testing.T) {
				cfg := daemon.Config{Config: config.Config{DataDir: filepath.Join(t.TempDir(), "data")}}
				db := filepath.Join(cfg.DataDir, "private", "local", "tenant.db")
				d := start(t, cfg)
				home, err := d.Tenants.Acquire(t.Context(), tenant.Local)
				if err == nil {
					err = home.Release(t.Context())
				}
				if when == "at start" {
					if err = errors.Join(err, d.Close(), c.harm(db)); err == nil {
						d = start(t, cfg)
					}
				}
				if err != nil {
					t.Fatal(err)
				}
				url := serveHTTP(t, d)
				if when == "while it runs" {
					if code, body := get(t, url+"/readyz"); code != http.StatusOK {
						t.Fatal(code, body)
					}
					if err := c.harm(db); err != nil {
						t.Fatal(err)
					}
				}
				for range 2 {
					if code, body := get(t, url+"/readyz"); code != http.StatusServiceUnavailable || !strings.Contains(body, says) {
						t.Errorf("%d %s", code, body)
					}
				}
			})
		}
	}
}
