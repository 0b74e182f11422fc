package cost

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/config"
	"github.com/sandpiper-mcp/sandpiper/internal/daemon"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog"
)

// Lists maps servers to their listings.
type Lists map[string]catalog.Listing

// maxList is the maximum size of a file.
const maxList = 64 << 20

// ReadLists reads a file with a tools/list result, or a directory of such files. The
// name of a server is that of its file.
func ReadLists(path string) (Lists, error) {
	files := []string{path}
	fi, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, fault.Wrap(fault.Invalid, err, "the list of tools %s cannot be read", path)
	case fi.IsDir():
		if files, err = filepath.Glob(filepath.Join(path, "*.json")); err != nil || len(files) == 0 {
			return nil, fault.New(fault.Invalid, "the directory %s has no .json file", path).
				WithHint("put the tools/list result of each server into a separate file there")
		}
	}
	lists := Lists{}
	for _, file := range files {
		l, err := readList(file)
		if err != nil {
			return nil, err
		}
		lists[strings.TrimSuffix(filepath.Base(file), filepath.Ext(file))] = l
	}
	return lists, nil
}

// list is a tools/list result, which may also have instructions.
type list struct {
	Instructions string
	Tools        []struct {
		Name, Title, Description  string
		InputSchema, OutputSchema json.RawMessage
	}
}

func readList(file string) (result catalog.Listing, err error) {
	fi, err := os.Stat(file)
	if err == nil && fi.Size() > maxList {
		return result, fault.New(fault.Invalid, "%s has %d bytes; the maximum is %d", file, fi.Size(), maxList)
	}
	if err == nil && !fi.Mode().IsRegular() { // opening a pipe would block
		return result, fault.New(fault.Invalid, "%s is not a regular file", file)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return result, fault.Wrap(fault.Invalid, err, "the list of tools %s cannot be read", file)
	}
	var answer struct {
		list
		Result *list // set if the file has the whole JSON-RPC message
	}
	if json.Unmarshal(data, &answer) != nil {
		return result, invalidList(file)
	}
	l := answer.list
	if answer.Result != nil {
		l = *answer.Result
	}
	if l.Tools == nil {
		return result, invalidList(file)
	}
	result.Instructions = l.Instructions
	for _, t := range l.Tools {
		if t.Name == "" || slices.ContainsFunc(result.Tools, func(d tool.Definition) bool { return d.Tool == t.Name }) {
			continue
		}
		result.Tools = append(result.Tools, tool.Definition{
			Ref: tool.Ref{Tool: t.Name}, Title: t.Title, Description: t.Description, Input: schema(t.InputSchema, "{}"),
			Output: schema(t.OutputSchema, ""),
		})
	}
	return result, nil
}

func invalidList(file string) error {
	return fault.New(fault.Invalid, "%s is not a tools/list result", file).
		WithHint(`it must be JSON such as {"tools": [{"name": "add", "inputSchema": {}}]}`)
}

// schema returns a compact schema, or none if data is not an object.
func schema(data json.RawMessage, none string) json.RawMessage {
	var b bytes.Buffer
	if json.Compact(&b, data) == nil && b.Bytes()[0] == '{' {
		return b.Bytes()
	}
	if none == "" {
		return nil
	}
	return json.RawMessage(none)
}

// Open returns a daemon with these listings and features, with its data in dir, which must be empty.
// Its servers cannot be started: it can only describe tools and be closed.
func (l Lists) Open(ctx context.Context, dir string, features []daemon.Feature) (*daemon.Daemon, error) {
	cfg := config.Config{Profile: "lean", DataDir: filepath.Join(dir, "data"), CacheDir: filepath.Join(dir, "cache")}
	for name := range l {
		cfg.Servers = append(cfg.Servers, config.Server{Name: name, Command: "none"})
	}
	d, err := daemon.New(daemon.Config{Features: features, Config: cfg, Version: "bench"})
	if err != nil {
		return nil, err
	}
	for name, result := range l {
		for i := range result.Tools {
			result.Tools[i].Server = name
		}
		if _, err := d.Servers.Catalog.Put(ctx, name, result); err != nil {
			d.Close()
			return nil, err
		}
	}
	return d, nil
}
