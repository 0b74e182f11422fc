package main

import (
	"os"
	"os/exec"
	"runtime"
)

// openBrowser has the desktop open an address, if there is one, and tells whether
// it could begin to.
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
	go func() { _ = cmd.Wait() }() // some stay for as long as the browser; nobody waits for that
	return true
}
