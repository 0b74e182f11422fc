//go:build !unix

package config

import "os"

// privately reports whether path exists: the directory of a user's profile is
// closed to others here.
func privately(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
