package main

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestArgumentValuesAreOfCommands(t *testing.T) {
	t.Parallel()
	root := newRoot()
	for name, all := range argumentValues {
		c, rest, err := root.Find(strings.Fields(name))
		if err != nil || len(rest) > 0 || commandName(c) != name {
			t.Errorf("there is no command %q", name)
			continue
		}
		if words := strings.Fields(c.Use); len(words) <= len(all) {
			t.Errorf("%q has fewer than %d arguments: %s", name, len(all), c.Use)
		}
	}
}

func TestHelpFitsOnOneScreen(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	printHelp(&b, newRoot())
	lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
	if len(lines) > 40 {
		t.Errorf("%d lines", len(lines))
	}
	for _, line := range lines {
		if utf8.RuneCountInString(line) > 80 {
			t.Errorf("wider than 80 columns: %s", line)
		}
	}
}
