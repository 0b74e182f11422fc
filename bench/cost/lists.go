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

// Lists are what servers list, by their names.
type Lists map[string]catalog.Listing

// maxList bounds one file.
const maxList = 64 << 20

// ReadLists reads a file with the answer of a server to tools/list, or a
// directory of such files. A server is called as its file.
func ReadLists(path string) (Lists, error) {
	files := []string{path}
	fi, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, fault.Wrap(fault.Invalid, err, "the list of tools %s cannot be read", path)
	case fi.IsDir():
		if files, err = filepath.Glob(filepath.Join(path, "*.json")); err != nil || len(files) == 0 {
			return nil, fault.New(fault.Invalid, "the directory %s has no .json file", path).
				WithHint("put the answer of each server to tools/list into a file of its own there")
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

// list is the result of tools/list, with what else one may keep beside it.
type list struct {
	Instructions string
	Tools        []struct {
		Name, Title, Description  string
		InputSchema, OutputSchema json.RawMessage
	}
}

func readList(file string) (said catalog.Listing, err error) {
	fi, err := os.Stat(file)
	if err == nil && fi.Size() > maxList {
		return said, fault.New(fault.Invalid, "%s has %d bytes; at most %d are read", file, fi.Size(), maxList)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return said, fault.Wrap(fault.Invalid, err, "the list of tools %s cannot be read", file)
	}
	var answer struct {
		list
		Result *list // where the whole message was kept
	}
	if json.Unmarshal(data, &answer) != nil {
		return said, noList(file)
	}
	l := answer.list
	if answer.Result != nil {
		l = *answer.Result
	}
	if l.Tools == nil {
		return said, noList(file)
	}
	said.Instructions = l.Instructions
	for _, t := range l.Tools {
		if t.Name == "" || slices.ContainsFunc(said.Tools, func(d tool.Definition) bool { return d.Tool == t.Name }) {
			continue
		}
		said.Tools = append(said.Tools, tool.Definition{
			Ref: tool.Ref{Tool: t.Name}, Title: t.Title, Description: t.Description, Input: schema(t.InputSchema, "{}"), Output: schema(t.OutputSchema, ""),
		})
	}
	return said, nil
}

func noList(file string) error {
	return fault.New(fault.Invalid, "%s is no answer to tools/list", file).WithHint(`it must be JSON such as {"tools": [{"name": "add", "inputSchema": {}}]}`)
}

// schema is a schema without spaces, or what stands for none.
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

// Open returns a daemon that knows these lists, with its data in dir, an empty
// directory. Its servers are names only: it is to be asked about tools, and to be
// closed, and nothing else.
func (l Lists) Open(ctx context.Context, dir string) (*daemon.Daemon, error) {
	cfg := config.Config{Profile: "lean", DataDir: filepath.Join(dir, "data"), CacheDir: filepath.Join(dir, "cache")}
	for name := range l {
		cfg.Servers = append(cfg.Servers, config.Server{Name: name, Command: "none"})
	}
	d, err := daemon.New(daemon.Config{Config: cfg, Version: "bench"})
	if err != nil {
		return nil, err
	}
	for name, said := range l {
		for i := range said.Tools {
			said.Tools[i].Server = name
		}
		if _, err := d.Servers.Catalog.Put(ctx, name, said); err != nil {
			d.Close()
			return nil, err
		}
	}
	return d, nil
}
