package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// writeNotes writes RELEASE_NOTES.md from the files of changelog/unreleased, sorted by name: the
// first line of a file is its title.
func writeNotes(_ context.Context, r *release) error {
	paths, err := filepath.Glob(filepath.Join(r.root, "changelog/unreleased/*.md"))
	if err != nil {
		return err
	}
	slices.Sort(paths)
	var text strings.Builder
	fmt.Fprintf(&text, "# Sandpiper %s\n\n%s\n", r.version, r.time.Format("2006-01-02"))
	for _, path := range paths {
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		title, rest, _ := strings.Cut(strings.TrimSpace(string(b)), "\n")
		fmt.Fprintf(&text, "\n**%s**\n", strings.TrimLeft(title, "# "))
		if rest = strings.TrimSpace(rest); rest != "" {
			fmt.Fprintf(&text, "\n%s\n", rest)
		}
	}
	return os.WriteFile(filepath.Join(r.dir, "RELEASE_NOTES.md"), []byte(text.String()), 0o644)
}

// writeFormula writes a Homebrew formula for the archives that exist.
func writeFormula(_ context.Context, r *release) error {
	var text strings.Builder
	fmt.Fprintf(&text, "class Sandpiper < Formula\n  desc %q\n  homepage %q\n  version %q\n  license \"MIT\"\n", summary, homepage,
		r.version)
	for _, system := range []struct{ on, os string }{{"on_linux", "linux"}, {"on_macos", "darwin"}} {
		var archives strings.Builder
		for _, cpu := range []struct{ on, arch string }{{"on_intel", "amd64"}, {"on_arm", "arm64"}} {
			name := fmt.Sprintf("sandpiper_%s_%s.tar.gz", r.version, target{system.os, cpu.arch})
			sum, err := sumOf(filepath.Join(r.dir, name))
			if os.IsNotExist(err) {
				continue
			}
			if err != nil {
				return err
			}
			fmt.Fprintf(&archives, "    %s do\n      url \"%s/releases/download/v%s/%s\"\n      sha256 %q\n    end\n", cpu.on, homepage,
				r.version, name, sum)
		}
		if archives.Len() > 0 {
			fmt.Fprintf(&text, "\n  %s do\n%s  end\n", system.on, archives.String())
		}
	}
	text.WriteString(`
  def install
    bin.install "sandpiper"
    pkgshare.install Dir["*.tar"] unless OS.linux?
    bash_completion.install "completions/sandpiper.bash" => "sandpiper"
    zsh_completion.install "completions/_sandpiper"
    fish_completion.install "completions/sandpiper.fish"
    man1.install Dir["man/*.1"]
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/sandpiper --version")
  end
end
`)
	return os.WriteFile(filepath.Join(r.dir, "sandpiper.rb"), []byte(text.String()), 0o644)
}
