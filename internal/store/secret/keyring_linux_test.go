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

func TestTheKeyringGivesWhatAnotherProgramPutThere(t *testing.T) {
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
	if fault.KindOf(err) != fault.Invalid || fault.Message(err) != "the keyring holds no secret github/other" || !strings.Contains(fault.Hint(err), "secret-tool store") {
		t.Errorf("got %v, hint %q", err, fault.Hint(err))
	}
	if err := lib.Set("github", "token", "changed"); err != nil {
		t.Fatal(err)
	}
	if got, err := r.Resolve(t.Context(), "${keyring:github/token}"); err != nil || got != "changed" {
		t.Errorf("after a change: %q, %v", got, err)
	}
}

func TestALockedKeyringIsNamed(t *testing.T) {
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

func TestWithoutAKeyringThatIsSaid(t *testing.T) {
	secrettest.Bus(t)
	address := os.Getenv("DBUS_SESSION_BUS_ADDRESS")
	for name, at := range map[string]string{"a bus without a service": address, "no bus": "unix:path=" + t.TempDir() + "/bus", "nonsense": "x"} {
		t.Setenv("DBUS_SESSION_BUS_ADDRESS", at)
		var r secret.References
		_, err := r.Resolve(t.Context(), "${keyring:github/token}")
		if fault.KindOf(err) != fault.Unavailable || fault.Message(err) != "there is no keyring here to look github/token up" || fault.Hint(err) == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// mute is a Secret Service that answers when it is let, as one that waits for a
// person does.
type mute struct {
	asked atomic.Int32
	let   chan struct{}
}

func (m *mute) Get(string, string) (dbus.Variant, *dbus.Error) {
	m.asked.Add(1)
	<-m.let
	return dbus.Variant{}, dbus.MakeFailedError(fmt.Errorf("dismissed"))
}

func TestNobodyWaitsForEverAndNobodyIsAskedTwice(t *testing.T) {
	secrettest.Bus(t)
	bus, err := dbus.ConnectSessionBus()
	if err != nil {
		t.Fatal(err)
	}
	defer bus.Close()
	m := &mute{let: make(chan struct{})}
	if err := bus.Export(m, "/org/freedesktop/secrets", "org.freedesktop.DBus.Properties"); err != nil {
		t.Fatal(err)
	}
	if _, err := bus.RequestName("org.freedesktop.secrets", 0); err != nil {
		t.Fatal(err)
	}
	var r secret.References
	ctx, leave := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for range 5 {
		all.Go(func() {
			_, err := r.Resolve(ctx, "${keyring:github/token}")
			if fault.KindOf(err) != fault.Unavailable || !strings.Contains(fault.Message(err), "may be locked") {
				t.Errorf("got %v", err)
			}
		})
	}
	for m.asked.Load() == 0 { // the others join this question
		runtime.Gosched()
	}
	leave()
	all.Wait()
	if n := m.asked.Load(); n != 1 {
		t.Errorf("the keyring was asked %d times for five who wait", n)
	}
	close(m.let)
	ended := make(chan error)
	go func() {
		_, err := r.Resolve(t.Context(), "${keyring:github/token}")
		ended <- err
	}()
	if err := <-ended; fault.KindOf(err) != fault.Unavailable {
		t.Errorf("after it was dismissed: %v", err)
	}
}
