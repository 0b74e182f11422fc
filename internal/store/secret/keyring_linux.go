package secret

import (
	"fmt"
	"strings"

	"github.com/godbus/dbus/v5"
)

// service is the D-Bus name of a Secret Service.
const service = "org.freedesktop.secrets"

const noKeyringHint = "start a Secret Service such as GNOME Keyring on the session bus (DBUS_SESSION_BUS_ADDRESS), or use ${NAME} or " +
	"${file:PATH}"

// storeHint returns the command that stores a secret.
func storeHint(at string) string {
	i := strings.LastIndexByte(at, '/')
	return fmt.Sprintf("store it: secret-tool store --label=%[1]q service %[1]q username %[2]q", at[:i], at[i+1:])
}

// checkAvailable fails with errNoKeyring unless a Secret Service runs or can be
// started. Without this check the library would start a session bus where there is
// none, and leave it running.
func checkAvailable() error {
	bus, err := dbus.SessionBusPrivateNoAutoStartup()
	if err != nil {
		return fmt.Errorf("%w: %w", errNoKeyring, err)
	}
	defer bus.Close()
	if err := bus.Auth(nil); err != nil {
		return fmt.Errorf("%w: %w", errNoKeyring, err)
	}
	if err := bus.Hello(); err != nil {
		return fmt.Errorf("%w: %w", errNoKeyring, err)
	}
	var running bool
	if err := bus.BusObject().Call("org.freedesktop.DBus.NameHasOwner", 0, service).Store(&running); err != nil || running {
		return err
	}
	if err := bus.BusObject().Call("org.freedesktop.DBus.StartServiceByName", 0, service, uint32(0)).Err; err != nil {
		return fmt.Errorf("%w: %w", errNoKeyring, err)
	}
	return nil
}
