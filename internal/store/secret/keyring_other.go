//go:build !linux

package secret

import (
	"fmt"
	"runtime"
	"strings"
)

const remedy = "use ${NAME} or ${file:PATH}"

// storing says how a secret is put where it is looked for.
func storing(at string) string {
	i := strings.LastIndexByte(at, '/')
	if runtime.GOOS == "windows" {
		return fmt.Sprintf("store it: cmdkey /generic:%s:%s /user:%s /pass", at[:i], at[i+1:], at[i+1:])
	}
	return fmt.Sprintf("store it: security add-generic-password -s %q -a %q -w", at[:i], at[i+1:])
}

// present: the system has a keyring of its own.
func present() error { return nil }
