package main

import (
	"bytes"
	"os"
	"testing"
)

func TestSessionIsUpToDate(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	want, err := draw(string(readme))
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("../../docs/session.svg")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Error("docs/session.svg is not the session of README.md; go run ./scripts/session-svg draws it")
	}
	if len(got) > 60_000 {
		t.Errorf("docs/session.svg has %d bytes, at most 60,000", len(got))
	}
}
