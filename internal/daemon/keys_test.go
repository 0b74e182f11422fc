package daemon_test

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/audit"
	"github.com/sandpiper-mcp/sandpiper/internal/config"
	"github.com/sandpiper-mcp/sandpiper/internal/daemon"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/vault"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

// harms are what can happen to a key file.
var harms = map[string]func(key string) error{
	"lost":    os.Remove,
	"another": func(key string) error { return os.WriteFile(key, bytes.Repeat([]byte{7}, 32), 0o600) },
	"half":    func(key string) error { return os.Truncate(key, 16) },
}

// whole fails the test unless the audit log of a data directory is as it was written.
func whole(t *testing.T, data string) {
	t.Helper()
	cfg, err := daemon.AuditConfig(data)
	if err != nil {
		t.Fatal(err)
	}
	if r, err := audit.Verify(t.Context(), cfg); err != nil || r.Problem != nil || r.Lines == 0 {
		t.Errorf("%+v %v", r, err)
	}
}

// A daemon that ran without ever tokenizing a value has an audit log under its key.
func TestNewRejectsWrongKey(t *testing.T) {
	for _, master := range []string{"", "file:PATH"} {
		for name, harm := range harms {
			t.Run(strings.TrimSpace(name+" "+master), func(t *testing.T) {
				dir := t.TempDir()
				data := filepath.Join(dir, "data")
				cfg := daemon.Config{Config: config.Config{DataDir: data}}
				key := filepath.Join(data, "key")
				if master != "" {
					key = filepath.Join(dir, "master")
					cfg.PII.Key = "file:" + key
				}
				d := start(t, cfg)
				run(t, d, "mail = 'ada@example.com'")
				if master != "" {
					tokenize(t, d, "ada@example.com")
				}
				if err := d.Close(); err != nil {
					t.Fatal(err)
				}
				kept, err := os.ReadFile(key)
				if err == nil {
					err = harm(key)
				}
				if err != nil {
					t.Fatal(err)
				}
				cfg.CacheDir, cfg.Version, cfg.Backend = t.TempDir(), "v1", fakes
				_, err = daemon.New(cfg)
				if fault.KindOf(err) != fault.Unavailable || !strings.Contains(fault.Message(err), "master key with fingerprint") ||
					fault.Hint(err) == "" {
					t.Errorf("started with %v", err)
				}
				if err := os.WriteFile(key, kept, 0o600); err != nil {
					t.Fatal(err)
				}
				run(t, start(t, cfg), "1")
				whole(t, data)
			})
		}
	}
}

// A data directory of an earlier version has a key without a fingerprint.
func TestKeyOfEarlierVersionIsKept(t *testing.T) {
	cfg := daemon.Config{Config: config.Config{DataDir: filepath.Join(t.TempDir(), "data")}}
	if err := start(t, cfg).Close(); err != nil {
		t.Fatal(err)
	}
	key := filepath.Join(cfg.DataDir, "key")
	before, err := os.ReadFile(key)
	if err = errors.Join(err, os.Remove(key+".fingerprint")); err != nil {
		t.Fatal(err)
	}
	start(t, cfg)
	after, err := os.ReadFile(key)
	if err != nil || !bytes.Equal(before, after) {
		t.Error(err)
	}
	if _, err := os.Stat(key + ".fingerprint"); err != nil {
		t.Error(err)
	}
}

// A backup may lack both files of the key. The audit log then tells which key the data
// directory was written with.
func TestNewRejectsKeyUnknownToTheAuditLog(t *testing.T) {
	for name, harm := range harms {
		t.Run(name, func(t *testing.T) {
			cfg := daemon.Config{Config: config.Config{DataDir: filepath.Join(t.TempDir(), "data")}}
			key := filepath.Join(cfg.DataDir, "key")
			d := start(t, cfg)
			run(t, d, "1")
			kept, err := os.ReadFile(key)
			if err = errors.Join(err, d.Close(), os.Remove(key+".fingerprint"), harm(key)); err != nil {
				t.Fatal(err)
			}
			cfg.CacheDir, cfg.Version, cfg.Backend = t.TempDir(), "v1", fakes
			if d, err := daemon.New(cfg); fault.KindOf(err) != fault.Unavailable || fault.Hint(err) == "" {
				t.Errorf("started with %v", err)
				if err == nil {
					d.Close()
				}
			}
			if _, err := os.Lstat(key + ".fingerprint"); err == nil {
				t.Error("another key was pinned")
			}
			if err := errors.Join(os.Remove(key+".fingerprint"), os.WriteFile(key, kept, 0o600)); err != nil && !errors.Is(err,
				os.ErrNotExist) {
				t.Fatal(err)
			}
			run(t, start(t, cfg), "1")
			whole(t, cfg.DataDir)
		})
	}
}

func TestReplacedKeyFailsReadiness(t *testing.T) {
	for name, harm := range harms {
		t.Run(name, func(t *testing.T) {
			d := start(t, daemon.Config{})
			url := serveHTTP(t, d)
			if code, body := get(t, url+"/readyz"); code != http.StatusOK {
				t.Fatal(code, body)
			}
			if err := harm(filepath.Join(d.DataDir(), "key")); err != nil {
				t.Fatal(err)
			}
			if code, body := get(t, url+"/readyz"); code != http.StatusServiceUnavailable || !strings.Contains(body,
				"master key with fingerprint") {
				t.Error(code, body)
			}
		})
	}
}

// tokenize has the local tenant's vault take a mail address.
func tokenize(t *testing.T, d *daemon.Daemon, address string) {
	t.Helper()
	home, err := d.Tenants.Acquire(t.Context(), tenant.Local)
	if err != nil {
		t.Fatal(err)
	}
	defer home.Release(t.Context())
	if _, err := home.Vault.Tokenize(t.Context(), "", []vault.Value{{Type: "EMAIL", Text: address}}); err != nil {
		t.Fatal(err)
	}
}

// serveHTTP serves on a free port until the test ends.
func serveHTTP(t *testing.T, d *daemon.Daemon) (url string) {
	t.Helper()
	ln, err := d.HTTP.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- d.HTTP.Serve(t.Context(), ln) }()
	t.Cleanup(func() {
		if err := <-ended; err != nil { // the test's context has ended
			t.Error(err)
		}
	})
	return "http://" + ln.Addr().String()
}

func get(t *testing.T, url string) (code int, body string) {
	t.Helper()
	res, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(b)
}
