package cli

import (
	"bytes"
	"cmp"
	"os"
	"path/filepath"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/config"
	"github.com/sandpiper-mcp/sandpiper/internal/config/rewrite"
	"github.com/sandpiper-mcp/sandpiper/internal/daemon"
)

// ReplaceConfig replaces a configuration file, and writes the JSON Schema to which it refers.
func ReplaceConfig(env *Env, path string, old, text []byte) error {
	dir := cmp.Or(config.UserDir(os.Environ()), filepath.Dir(path))
	write := func(c rewrite.Change) error { return rewrite.Replace(dir, c) }
	if err := write(rewrite.Change{Path: path, Old: old, New: text, Mode: 0o600}); err != nil {
		return err
	}
	return WriteSchema(env, path, text, write)
}

// WriteSchema writes the JSON Schema of this version next to a configuration file whose first line
// refers to it.
func WriteSchema(env *Env, path string, text []byte, write func(rewrite.Change) error) error {
	if !strings.HasPrefix(string(text), config.SchemaLine) {
		return nil
	}
	schema, err := config.JSONSchema(daemon.Sections(env.Features))
	if err != nil {
		return err
	}
	schema = append(schema, '\n')
	file := filepath.Join(filepath.Dir(path), config.SchemaFile)
	old, err := os.ReadFile(file)
	if err == nil && bytes.Equal(old, schema) {
		return nil
	}
	return write(rewrite.Change{Path: file, Old: old, New: schema, Mode: 0o644})
}
