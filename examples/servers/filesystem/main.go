// Command filesystem is a small MCP server for the files in one directory, which is its
// argument. It is an example, and a server for the project's tests.
//
// os.Root prevents access to files outside the directory, also through links.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"os"
	"path"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const maxFile = 1 << 20 // bytes

type file struct {
	Path string `json:"path" jsonschema:"relative to the root, such as notes/todo.txt"`
}

type content struct {
	file
	Content string `json:"content" jsonschema:"text to write"`
}

type directory struct {
	Path string `json:"path,omitempty" jsonschema:"relative to the root; the root itself if left out"`
}

type text struct {
	Content string `json:"content"`
}

type written struct {
	Bytes int `json:"bytes"`
}

type entry struct {
	Name string `json:"name"`
	Kind string `json:"kind" jsonschema:"file, directory or other"`
	Size int64  `json:"size" jsonschema:"bytes; 0 unless it is a file"`
}

type entries struct {
	Entries []entry `json:"entries"`
}

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: filesystem DIRECTORY")
	}
	root, err := os.OpenRoot(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	s := mcp.NewServer(&mcp.Implementation{Name: "filesystem", Version: "1.0.0"}, nil)
	yes, no := true, false
	readOnly := &mcp.ToolAnnotations{ReadOnlyHint: true, OpenWorldHint: &no}
	mcp.AddTool(s, &mcp.Tool{Name: "read_file", Description: "Read a text file of at most 1 MiB.", Annotations: readOnly},
		func(_ context.Context, _ *mcp.CallToolRequest, in file) (*mcp.CallToolResult, text, error) {
			t, err := read(root, in.Path)
			return nil, text{t}, err
		})
	mcp.AddTool(s, &mcp.Tool{Name: "write_file", Description: "Write a text file; one that is there is replaced, and directories are made.",
		Annotations: &mcp.ToolAnnotations{DestructiveHint: &yes, IdempotentHint: true, OpenWorldHint: &no}},
		func(_ context.Context, _ *mcp.CallToolRequest, in content) (*mcp.CallToolResult, written, error) {
			return nil, written{len(in.Content)}, write(root, in.Path, in.Content)
		})
	mcp.AddTool(s, &mcp.Tool{Name: "list_directory", Description: "List the entries of a directory.", Annotations: readOnly},
		func(_ context.Context, _ *mcp.CallToolRequest, in directory) (*mcp.CallToolResult, entries, error) {
			e, err := list(root, in.Path)
			return nil, entries{e}, err
		})
	if err := s.Run(context.Background(), &mcp.StdioTransport{}); err != nil {
		log.Fatal(err)
	}
}

func read(root *os.Root, name string) (string, error) {
	info, err := root.Stat(name)
	switch {
	case err != nil:
		return "", plain(name, err)
	case !info.Mode().IsRegular():
		return "", fmt.Errorf("%q is not a regular file", name)
	}
	f, err := root.Open(name)
	if err != nil {
		return "", plain(name, err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	switch {
	case err != nil:
		return "", plain(name, err)
	case len(b) > maxFile:
		return "", fmt.Errorf("%q has more than %d bytes", name, maxFile)
	case !utf8.Valid(b):
		return "", fmt.Errorf("%q is not UTF-8 text", name)
	}
	return string(b), nil
}

func write(root *os.Root, name, content string) error {
	if len(content) > maxFile {
		return fmt.Errorf("the content has more than %d bytes", maxFile)
	}
	if info, err := root.Stat(name); err == nil && !info.Mode().IsRegular() {
		return fmt.Errorf("%q is not a regular file", name)
	}
	if err := root.MkdirAll(path.Dir(name), 0o755); err != nil {
		return plain(name, err)
	}
	return plain(name, root.WriteFile(name, []byte(content), 0o644))
}

func list(root *os.Root, name string) ([]entry, error) {
	if name == "" {
		name = "."
	}
	found, err := fs.ReadDir(root.FS(), path.Clean(name))
	all := []entry{}
	for _, e := range found {
		info, err := e.Info()
		switch {
		case err != nil: // removed in the meantime
		case e.IsDir():
			all = append(all, entry{Name: e.Name(), Kind: "directory"})
		case e.Type().IsRegular():
			all = append(all, entry{e.Name(), "file", info.Size()})
		default:
			all = append(all, entry{Name: e.Name(), Kind: "other"})
		}
	}
	return all, plain(name, err)
}

// plain removes the paths of this machine from an error.
func plain(name string, err error) error {
	var why *fs.PathError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%q does not exist", name)
	case errors.As(err, &why):
		return fmt.Errorf("%q: %w", name, why.Err)
	}
	return fmt.Errorf("%q: %w", name, err)
}
