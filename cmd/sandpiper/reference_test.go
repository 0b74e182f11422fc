package main

import (
	"cmp"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

var referenceDir = flag.String("reference", "", "write the manual pages and the completions into this directory")

// TestReference writes the manual pages and the completions; scripts/release puts them into packages.
func TestReference(t *testing.T) {
	t.Parallel()
	dir := cmp.Or(*referenceDir, t.TempDir())
	root := newRoot()
	if err := writeReference(root, dir); err != nil {
		t.Fatal(err)
	}
	var check func(c *cobra.Command)
	check = func(c *cobra.Command) {
		if c.IsAvailableCommand() {
			page, err := os.ReadFile(filepath.Join(dir, "man", strings.ReplaceAll(c.CommandPath(), " ", "-")+".1"))
			if err != nil || !strings.Contains(string(page), ".SH SYNOPSIS") {
				t.Errorf("the page of %q: %v\n%.300s", c.CommandPath(), err, page)
			}
		}
		for _, sub := range c.Commands() {
			check(sub)
		}
	}
	check(root)
}

func writeReference(root *cobra.Command, dir string) error {
	man, completions := filepath.Join(dir, "man"), filepath.Join(dir, "completions")
	if err := errors.Join(os.MkdirAll(man, 0o755), os.MkdirAll(completions, 0o755)); err != nil {
		return err
	}
	root.DisableAutoGenTag = true
	return errors.Join(
		doc.GenManTree(root, &doc.GenManHeader{Section: "1", Source: "Sandpiper"}, man),
		root.GenBashCompletionFileV2(filepath.Join(completions, "sandpiper.bash"), true),
		root.GenZshCompletionFile(filepath.Join(completions, "_sandpiper")),
		root.GenFishCompletionFile(filepath.Join(completions, "sandpiper.fish"), true),
	)
}
