package secret_test

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/godbus/dbus/v5"
	lib "github.com/zalando/go-keyring"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/store/secret"
	"github.com/sandpiper-mcp/sandpiper/internal/store/secret/secrettest"
)

func TestResolveKeyring(t *testing.T) {
	secrettest.Bus(t)
	secrettest.Keyring(t, "password")
	for _, s := range [][3]string{{"github", "token", "s3cret"}, {"https://example.com/mcp", "me", "ünïcode $ecret ${HOME}"}} {
		if err := lib.Set(s[0], s[1], s[2]); err != nil {
			t.Fatal(err)
		}
	}
	var r secret.References
	for text, want := range map[string]string{
		"Bearer ${keyring:github/token}":        "Bearer s3cret",
		"${keyring:https://example.com/mcp/me}": "ünïcode $ecret ${HOME}",
	} {
		if got, err := r.Resolve(t.Context(), text); err != nil || got != want {
			t.Errorf("Resolve(%q) = %q, %v; want %q", text, got, err, want)
		}
	}
	_, err := r.Resolve(t.Context(), "${keyring:github/other}")
	if fault.KindOf(err) != fault.Invalid || fault.Message(err) != "the keyring contains no secret github/other" ||
		!strings.Contains(fault.Hint(err), "secret-tool store") {
		t.Errorf("got %v, hint %q", err, fault.Hint(err))
	}
	if err := lib.Set("github", "token", "changed"); err != nil {
		t.Fatal(err)
	}
	if got, err := r.Resolve(t.Context(), "${keyring:github/token}"); err != nil || got != "changed" {
		t.Errorf("after a change: %q, %v", got, err)
	}
}

func TestResolveReportsLockedKeyring(t *testing.T) {
	secrettest.Bus(t)
	secrettest.Keyring(t, "password")
	if err := lib.Set("github", "token", "s3cret"); err != nil {
		t.Fatal(err)
	}
	bus, err := dbus.ConnectSessionBus()
	if err != nil {
		t.Fatal(err)
	}
	defer bus.Close()
	login := dbus.ObjectPath("/org/freedesktop/secrets/collection/login")
	if err := bus.Object("org.freedesktop.secrets", "/org/freedesktop/secrets").
		Call("org.freedesktop.Secret.Service.Lock", 0, []dbus.ObjectPath{login}).Err; err != nil {
		t.Fatal(err)
	}
	var r secret.References
	got, err := r.Resolve(t.Context(), "${keyring:github/token}")
	if got != "" || fault.KindOf(err) != fault.Unavailable || !strings.Contains(fault.Hint(err), "unlock") {
		t.Errorf("got %q, %v, hint %q", got, err, fault.Hint(err))
	}
}

func TestResolveReportsMissingKeyring(t *testing.T) {
	secrettest.Bus(t)
	address := os.Getenv("DBUS_SESSION_BUS_ADDRESS")
	for name, at := range map[string]string{"a bus without a service": address, "no bus": "unix:path=" + t.TempDir() + "/bus",
		"nonsense": "x"} {
		t.Setenv("DBUS_SESSION_BUS_ADDRESS", at)
		var r secret.References
		_, err := r.Resolve(t.Context(), "${keyring:github/token}")
		if fault.KindOf(err) != fault.Unavailable || fault.Message(err) != "the secret github/token cannot be looked up: this system has "+
			"no keyring" || fault.Hint(err) == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// blockedService is a Secret Service that does not answer until released, like one
// that shows a password dialog.
type blockedService struct {
	requests atomic.Int32
	release  chan struct{}
}

func (m *blockedService) Get(string, string) (dbus.Variant, *dbus.Error) {
	m.requests.Add(1)
	<-m.release
	return dbus.Variant{}, dbus.MakeFailedError(fmt.Errorf("dismissed"))
}

func TestKeyringLookupsAreShared(t *testing.T) {
	secrettest.Bus(t)
	bus, err := dbus.ConnectSessionBus()
	if err != nil {
		t.Fatal(err)
	}
	defer bus.Close()
	m := &blockedService{release: make(chan struct{})}
	if err := bus.Export(m, "/org/freedesktop/secrets", "org.freedesktop.DBus.Properties"); err != nil {
		t.Fatal(err)
	}
	if _, err := bus.RequestName("org.freedesktop.secrets", 0); err != nil {
		t.Fatal(err)
	}
	var r secret.References
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for range 5 {
		all.Go(func() {
			_, err := r.Resolve(ctx, "${keyring:github/token}")
			if fault.KindOf(err) != fault.Unavailable || !strings.Contains(fault.Message(err), "may be locked") {
				t.Errorf("got %v", err)
			}
		})
	}
	for m.requests.Load() == 0 { // the other calls share this lookup
		runtime.Gosched()
	}
	cancel()
	all.Wait()
	if n := m.requests.Load(); n != 1 {
		t.Errorf("%d requests to the keyring for five callers, want 1", n)
	}
	close(m.release)
	ended := make(chan error)
	go func() {
		_, err := r.Resolve(t.Context(), "${keyring:github/token}")
		ended <- err
	}()
	if err := <-ended; fault.KindOf(err) != fault.Unavailable {
		t.Errorf("after the dialog was dismissed: %v", err)
	}
}
