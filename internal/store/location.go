package store

import (
	"net/url"
	"path/filepath"
	"strings"
)

// location returns an absolute path as an SQLite URI.
func location(path string) string {
	path = filepath.ToSlash(path)
	if !strings.HasPrefix(path, "/") {
		path = "/" + path // a drive letter
	}
	return (&url.URL{Scheme: "file", Path: path}).String()
}
