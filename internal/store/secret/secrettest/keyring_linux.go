// Package secrettest runs a real keyring for tests, on a private session bus.
//
// A test that uses it changes environment variables and so cannot be parallel. If the
// programs are not installed, the test is skipped, or fails if REQUIRE_KEYRING is
// set. The package stores nothing in the keyring.
package secrettest

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/godbus/dbus/v5"
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
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // with the services that the bus started
		_ = cmd.Wait()
	})
	return bufio.NewReader(out)
}

// busConfig configures a session bus in a directory. It starts no installed services.
const busConfig = `<busconfig>
	<type>session</type>
	<listen>unix:path=%s/bus</listen>
	<auth>EXTERNAL</auth>
	<policy context="default"><allow send_destination="*" eavesdrop="true"/><allow eavesdrop="true"/><allow own="*"/></policy>
</busconfig>`

// Bus runs a session bus for this test only, separate from the user's session.
func Bus(t *testing.T) {
	t.Helper()
	home := t.TempDir()
	for _, name := range []string{"HOME", "XDG_RUNTIME_DIR", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"} {
		t.Setenv(name, home)
	}
	t.Setenv("DISPLAY", "")
	dir, err := os.MkdirTemp("/tmp", "sandpiper-bus-") // the path of a socket is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	config := filepath.Join(home, "bus.conf")
	if err := os.WriteFile(config, fmt.Appendf(nil, busConfig, dir), 0o600); err != nil {
		t.Fatal(err)
	}
	out := start(t, "", "dbus-daemon", "--config-file="+config, "--nofork", "--print-address")
	address, err := out.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("DBUS_SESSION_BUS_ADDRESS", strings.TrimSpace(address))
}

// Keyring runs GNOME Keyring on the test's bus. The keyring is unlocked with password
// unless that is empty.
func Keyring(t *testing.T, password string) {
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
