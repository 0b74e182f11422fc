// Package longtest selects the tests that run. "go test ./..." runs those that are quick,
// in a few minutes. With SLOW_TESTS=1, as in parts of .ci/run, every feature is tested
// once; with LONG_TESTS=1, as in others, the tests that only repeat features
// (more kills, all modes and protocol versions, whole corpora) run too.
package longtest

import (
	"os"
	"testing"
)

// Enabled reports whether long tests run.
func Enabled() bool { return os.Getenv("LONG_TESTS") != "" }

// Skip skips the test unless long tests run.
func Skip(t testing.TB) {
	t.Helper()
	if !Enabled() {
		t.Skip("a long test: set LONG_TESTS=1 to run it")
	}
}

// SkipSlow skips a test that takes many seconds of processor time, unless every feature is tested.
func SkipSlow(t testing.TB) {
	t.Helper()
	if !Slow() {
		t.Skip("a slow test: set SLOW_TESTS=1 to run it")
	}
}

// Slow reports whether slow tests run.
func Slow() bool { return Enabled() || os.Getenv("SLOW_TESTS") != "" }

// Rows returns all rows of a test table if long tests run, and otherwise the rows
// at the indices in short.
func Rows[T any](all []T, short ...int) []T {
	if Enabled() {
		return all
	}
	rows := make([]T, len(short))
	for i, index := range short {
		rows[i] = all[index]
	}
	return rows
}
