package oauth

import (
	"os"
	"os/exec"
	"runtime"
)

// openBrowser opens an address in the browser of the desktop. It reports whether the
// browser was started.
func openBrowser(address string) bool {
	var cmd *exec.Cmd
	switch runtime.GOOS {
	case "darwin":
		cmd = exec.Command("open", address)
	case "windows":
		cmd = exec.Command("rundll32", "url.dll,FileProtocolHandler", address)
	default:
		if os.Getenv("DISPLAY") == "" && os.Getenv("WAYLAND_DISPLAY") == "" {
			return false
		}
		cmd = exec.Command("xdg-open", address)
	}
	if cmd.Start() != nil {
		return false
	}
	go func() { _ = cmd.Wait() }() // may run as long as the browser
	return true
}
