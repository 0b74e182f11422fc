package secret

import (
	"fmt"
	"strings"

	"github.com/godbus/dbus/v5"
)

// service is the name under which a Secret Service is found.
const service = "org.freedesktop.secrets"

const remedy = "start a Secret Service such as GNOME Keyring on the session bus (DBUS_SESSION_BUS_ADDRESS), or use ${NAME} or ${file:PATH}"

// storing says how a secret is put where it is looked for.
func storing(at string) string {
	i := strings.LastIndexByte(at, '/')
	return fmt.Sprintf("store it: secret-tool store --label=%[1]q service %[1]q username %[2]q", at[:i], at[i+1:])
}

// present makes sure of a Secret Service, and starts one that is installed. The
// library would start a bus of its own where there is none, and leave it behind.
func present() error {
	bus, err := dbus.SessionBusPrivateNoAutoStartup()
	if err != nil {
		return fmt.Errorf("%w: %w", errNone, err)
	}
	defer bus.Close()
	if err := bus.Auth(nil); err != nil {
		return fmt.Errorf("%w: %w", errNone, err)
	}
	if err := bus.Hello(); err != nil {
		return fmt.Errorf("%w: %w", errNone, err)
	}
	var running bool
	if err := bus.BusObject().Call("org.freedesktop.DBus.NameHasOwner", 0, service).Store(&running); err != nil || running {
		return err
	}
	if err := bus.BusObject().Call("org.freedesktop.DBus.StartServiceByName", 0, service, uint32(0)).Err; err != nil {
		return fmt.Errorf("%w: %w", errNone, err)
	}
	return nil
}
