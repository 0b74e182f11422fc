package process

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// inherited lists the variables of the daemon that every program gets: those for finding
// files and for the locale. None of them contains a secret; proxy variables are excluded
// because their URLs may contain a password.
var inherited = []string{
	"PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR",
	"XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR",
	"SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS",
}

// inheritedWindows lists the variables without which programs on Windows do not start.
var inheritedWindows = []string{
	"APPDATA", "COMSPEC", "HOMEDRIVE", "HOMEPATH", "LOCALAPPDATA", "PATHEXT", "PROCESSOR_ARCHITECTURE", "PROGRAMDATA",
	"PROGRAMFILES", "SYSTEMDRIVE", "SYSTEMROOT", "TEMP", "TMP", "USERNAME", "USERPROFILE", "WINDIR",
}

// environment returns the inherited variables overridden by the configured ones.
func environment(named map[string]string) []string {
	all := map[string]string{}
	names := inherited
	if runtime.GOOS == "windows" {
		names = slices.Concat(inherited, inheritedWindows)
	}
	for _, name := range names {
		if v, ok := os.LookupEnv(name); ok {
			all[name] = v
		}
	}
	maps.Copy(all, named)
	env := make([]string, 0, len(all))
	for _, name := range slices.Sorted(maps.Keys(all)) {
		env = append(env, name+"="+all[name])
	}
	return env
}

// findProgram looks up a program as the child itself would: on its configured PATH,
// otherwise on the daemon's.
func findProgram(command string, named map[string]string) (string, error) {
	path, given := named["PATH"]
	if strings.ContainsAny(command, `/\`) || !given || runtime.GOOS == "windows" {
		found, err := exec.LookPath(command)
		if err != nil {
			return "", fmt.Errorf("%w: %w", ErrNotFound, err)
		}
		return found, nil
	}
	for _, dir := range filepath.SplitList(path) {
		if found, err := exec.LookPath(filepath.Join(dir, command)); err == nil && filepath.IsAbs(dir) {
			return found, nil
		}
	}
	return "", fmt.Errorf("%w: on PATH=%s", ErrNotFound, path)
}
