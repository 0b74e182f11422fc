//go:build linux && (amd64 || arm64)

package python_test

func child(string) int { return 0 }
