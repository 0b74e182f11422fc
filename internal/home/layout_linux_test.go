package home_test

import (
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
)

func TestUnusableDataDirectoryHasAReason(t *testing.T) {
	_, err := home.Open(t.Context(), home.Config{Root: "/proc/sandpiper"})
	if want := "the data directory /proc/sandpiper cannot be used: no such file or directory"; fault.Message(err) != want ||
		fault.Hint(err) == "" {
		t.Errorf("got %v, want %s", err, want)
	}
}
