// Package build builds the program of this checkout.
package build

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Root returns the directory of the module of the program. The working directory must be in this module.
func Root(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/sandpiper-mcp/sandpiper").Output()
	if err != nil {
		return "", fmt.Errorf("find the module of the program: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}

// Program builds the program into dir and returns its path.
func Program(ctx context.Context, dir string) (string, error) {
	binary := filepath.Join(dir, "sandpiper")
	return binary, Packages(ctx, binary, "./cmd/sandpiper")
}

// Packages builds packages of the module of the program into a file or directory.
func Packages(ctx context.Context, out, packages string) error {
	root, err := Root(ctx)
	if err != nil {
		return err
	}
	c := exec.CommandContext(ctx, "go", "build", "-C", root, "-o", out, packages)
	c.Env = append(os.Environ(), "CGO_ENABLED=0")
	if printed, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w\n%s", err, printed)
	}
	return nil
}
