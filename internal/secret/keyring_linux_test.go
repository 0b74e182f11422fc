package secret_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/godbus/dbus/v5"
	lib "github.com/zalando/go-keyring"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/secret"
)

// start runs a program until the test ends.
func start(t *testing.T, stdin, name string, args ...string) *bufio.Reader {
	t.Helper()
	if _, err := exec.LookPath(name); err != nil {
		if os.Getenv("REQUIRE_KEYRING") != "" {
			t.Fatal(err)
		}
		t.Skipf("%s is not installed (Debian: dbus-daemon, gnome-keyring)", name)
	}
	cmd := exec.Command(name, args...)
	cmd.Stdin = strings.NewReader(stdin)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // and what the bus activated
		_ = cmd.Wait()
	})
	return bufio.NewReader(out)
}

// busConfig is that of a session, but starts no service of this machine's.
const busConfig = `<busconfig>
	<type>session</type>
	<listen>unix:tmpdir=/tmp</listen>
	<auth>EXTERNAL</auth>
	<policy context="default"><allow send_destination="*" eavesdrop="true"/><allow eavesdrop="true"/><allow own="*"/></policy>
</busconfig>`

// startBus runs a session bus for this test alone, with nothing of this person.
func startBus(t *testing.T) {
	t.Helper()
	home := t.TempDir()
	for _, name := range []string{"HOME", "XDG_RUNTIME_DIR", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"} {
		t.Setenv(name, home)
	}
	t.Setenv("DISPLAY", "")
	config := filepath.Join(home, "bus.conf")
	if err := os.WriteFile(config, []byte(busConfig), 0o600); err != nil {
		t.Fatal(err)
	}
	out := start(t, "", "dbus-daemon", "--config-file="+config, "--nofork", "--print-address")
	address, err := out.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("DBUS_SESSION_BUS_ADDRESS", strings.TrimSpace(address))
}

// startKeyring runs GNOME Keyring on the test's bus; with a password, unlocked.
func startKeyring(t *testing.T, password string) {
	t.Helper()
	if password == "" {
		start(t, "", "gnome-keyring-daemon", "--foreground", "--components=secrets")
	} else {
		start(t, password, "gnome-keyring-daemon", "--foreground", "--components=secrets", "--unlock")
	}
	bus, err := dbus.ConnectSessionBus()
	if err != nil {
		t.Fatal(err)
	}
	defer bus.Close()
	for {
		var owned bool
		if err := bus.BusObject().Call("org.freedesktop.DBus.NameHasOwner", 0, "org.freedesktop.secrets").Store(&owned); err != nil {
			t.Fatal(err)
		}
		if owned {
			return
		}
	}
}

func TestTheKeyringGivesWhatAnotherProgramPutThere(t *testing.T) {
	startBus(t)
	startKeyring(t, "password")
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
	startBus(t)
	startKeyring(t, "password")
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
	startBus(t)
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
	startBus(t)
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
