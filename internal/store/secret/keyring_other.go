//go:build !linux

package secret

import (
	"fmt"
	"runtime"
	"strings"
)

const noKeyringHint = "use ${NAME} or ${file:PATH}"

// storeHint returns the command that stores a secret.
func storeHint(at string) string {
	i := strings.LastIndexByte(at, '/')
	if runtime.GOOS == "windows" {
		return fmt.Sprintf("store it: cmdkey /generic:%s:%s /user:%s /pass", at[:i], at[i+1:], at[i+1:])
	}
	return fmt.Sprintf("store it: security add-generic-password -s %q -a %q -w", at[:i], at[i+1:])
}

// checkAvailable returns nil: macOS and Windows always have a keyring, and the library
// reports an unsupported system.
func checkAvailable() error { return nil }
