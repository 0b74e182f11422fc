package config

import (
	"path/filepath"
	"runtime"
	"strings"
)

// dirs are the base directories of the user, "" if the environment has none.
type dirs struct {
	home, config, data, cache string
}

// directories returns the XDG base directories, and on Windows their counterparts.
func directories(env map[string]string) dirs {
	d := dirs{home: env["HOME"]}
	fallback := [3]string{".config", ".local/share", ".cache"}
	base := [3]string{d.home, d.home, d.home}
	if runtime.GOOS == "windows" {
		d.home = env["USERPROFILE"]
		fallback = [3]string{"", "", "cache"}
		base = [3]string{env["APPDATA"], env["LOCALAPPDATA"], env["LOCALAPPDATA"]}
	}
	var out [3]string
	for i, name := range [3]string{"XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME"} {
		switch {
		case filepath.IsAbs(env[name]): // the specification ignores relative paths
			out[i] = filepath.Join(env[name], "sandpiper")
		case filepath.IsAbs(base[i]):
			out[i] = filepath.Join(base[i], filepath.FromSlash(fallback[i]), "sandpiper")
		}
	}
	d.config, d.data, d.cache = out[0], out[1], out[2]
	if runtime.GOOS == "windows" && d.cache != "" && env["XDG_CACHE_HOME"] == "" {
		d.cache = filepath.Join(d.data, "cache")
	}
	return d
}

// UserDir returns the user's configuration directory, "" if the environment has none.
func UserDir(environ []string) string { return directories(environment(environ)).config }

// absolute resolves path relative to dir; ~ is the home directory.
func absolute(path, dir string, env map[string]string) string {
	if home := env["HOME"]; home != "" && (path == "~" || strings.HasPrefix(path, "~/")) {
		path = home + path[1:]
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(dir, path)
	}
	return filepath.Clean(path)
}
