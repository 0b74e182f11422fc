// Command trim-python prepares the build of a release: it writes a go.mod that replaces
// go-embed-python by a copy without the files that no sandbox uses, which are 12 MB of
// the program, and with the others compressed, which saves 11 MB more:
//
//	go run ./scripts/trim-python
//	go build -modfile dist/trimmed/go.mod ./cmd/sandpiper
//
// It runs in the root of the repository.
package main

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/python"
)

const (
	module = "github.com/kluctl/go-embed-python"
	out    = "dist/trimmed"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "trim-python:", err)
		os.Exit(1)
	}
}

func run() error {
	if err := os.RemoveAll(out); err != nil {
		return err
	}
	if _, err := command("go", "mod", "download", module); err != nil {
		return err
	}
	dir, err := command("go", "list", "-m", "-f", "{{.Dir}}", module)
	if err != nil {
		return err
	}
	if err := trim(dir, filepath.Join(out, "python")); err != nil {
		return fmt.Errorf("copying %s: %w", module, err)
	}
	for _, name := range []string{"go.mod", "go.sum"} {
		if err := copyFile(name, filepath.Join(out, name)); err != nil {
			return err
		}
	}
	_, err = command("go", "mod", "edit", "-replace", module+"=./"+out+"/python", out+"/go.mod")
	return err
}

// command runs a program and returns what it prints, without the last line break.
func command(name string, args ...string) (string, error) {
	c := exec.Command(name, args...)
	c.Stderr = os.Stderr
	text, err := c.Output()
	if err != nil {
		return "", fmt.Errorf("running %s %s: %w", name, strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(text)), nil
}

// trim copies the module from the directory from to the new directory to, without files
// that python.Install skips. It compresses embedded files; the list of them is unchanged.
func trim(from, to string) error {
	needed := needs()
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		name, err := filepath.Rel(from, path)
		if err != nil || !needed(filepath.ToSlash(name)) {
			return err
		}
		to := filepath.Join(to, name)
		if isEmbedded(filepath.ToSlash(name)) && filepath.Ext(name) != ".gz" {
			return compress(path, to+".gz")
		}
		return copyFile(path, to)
	})
}

// needs returns a function that reports whether a build for any system needs a file of
// the module.
func needs() func(name string) bool {
	installs := python.Installer()
	return func(name string) bool {
		name, ok := strings.CutPrefix(name, "python/internal/data/")
		system, name, inside := strings.Cut(name, "/")
		if !ok || !inside {
			return true
		}
		return strings.HasPrefix(system, "linux-") && (name == "files.json" || installs(strings.TrimSuffix(name, ".gz")))
	}
}

// isEmbedded reports whether a file of the module is one of Python or pip.
func isEmbedded(name string) bool {
	_, name, inside := strings.Cut(name, "/internal/data/")
	return inside && strings.Contains(name, "/") && !strings.HasSuffix(name, "/files.json")
}

func compress(from, to string) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return err
	}
	_, err = w.Write(data)
	if err := errors.Join(err, w.Close()); err != nil {
		return err
	}
	return write(to, b.Bytes())
}

func copyFile(from, to string) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return write(to, data)
}

func write(to string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	return os.WriteFile(to, data, 0o644)
}
