//go:build unix && !linux

package process

// marked finds nobody: there is no /proc. Who left the group of a program sees
// the end of its streams.
func findMarked(string) []int { return nil }
