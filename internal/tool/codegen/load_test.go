package codegen_test

import (
	"cmp"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/codegen"
)

// listed is a tool as returned by tools/list.
type listed struct {
	Name, Title, Description  string
	InputSchema, OutputSchema json.RawMessage
}

func definitions(server string, tools []listed) (defs []tool.Definition) {
	for _, l := range tools {
		defs = append(defs, tool.Definition{Ref: tool.Ref{Server: server, Tool: l.Name}, Title: l.Title,
			Description: l.Description, Input: l.InputSchema, Output: l.OutputSchema})
	}
	return defs
}

func read(t testing.TB, name string, into any) {
	t.Helper()
	b, err := os.ReadFile(name)
	if err == nil {
		err = json.Unmarshal(b, into)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// diverse returns the servers of testdata: few tools, which use all features of schemas.
func diverse(t testing.TB) (servers []codegen.Server) {
	t.Helper()
	var all []struct {
		Name, Title, Description string
		Resources, Prompts       bool
		Tools                    []listed
	}
	read(t, filepath.Join("testdata", "servers.json"), &all)
	for _, s := range all {
		servers = append(servers, codegen.Server{Name: s.Name, Title: s.Title, Description: s.Description,
			Tools: definitions(s.Name, s.Tools), Resources: s.Resources, Prompts: s.Prompts})
	}
	return servers
}

// capturedServers returns the captured servers, and skips the test if there are none.
func capturedServers(t testing.TB) []codegen.Server {
	t.Helper()
	servers := captured(t)
	if len(servers) == 0 {
		t.Skip("there are no captured tool lists in ../../../shared/data/toolslists")
	}
	return servers
}

// captured returns the captured servers, or nil if the data is missing.
func captured(t testing.TB) (servers []codegen.Server) {
	t.Helper()
	files, _ := filepath.Glob("../../../shared/data/toolslists/*.json")
	for _, name := range files {
		var captured struct {
			Server       struct{ Name string }
			Instructions string
			Tools        []listed
		}
		read(t, name, &captured)
		name = strings.TrimSuffix(filepath.Base(name), ".json")
		servers = append(servers, codegen.Server{Name: name, Title: captured.Server.Name, Description: captured.Instructions,
			Tools: definitions(name, captured.Tools), Resources: true, Prompts: true})
	}
	return servers
}

// tree returns the generated files of all servers by path.
func tree(servers []codegen.Server) map[string]string {
	names := make([]string, len(servers))
	for i, s := range servers {
		names[i] = cmp.Or(s.Name, s.Module)
	}
	ids := tool.ModuleNames(names)
	files := map[string]string{}
	for _, f := range codegen.Root(servers) {
		files[f.Path] = string(f.Data)
	}
	for _, s := range servers {
		s.Module = ids[cmp.Or(s.Name, s.Module)]
		for _, f := range codegen.Generate(s) {
			files[f.Path] = string(f.Data)
		}
	}
	return files
}

// inDir writes the generated files to dir/servers, and a fake _sandpiper to dir.
func inDir(t testing.TB, servers []codegen.Server) (dir string) {
	t.Helper()
	dir = t.TempDir()
	fake, err := os.ReadFile(filepath.Join("testdata", "_sandpiper.py"))
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "_sandpiper.py"), fake, 0o600)
	}
	if err == nil {
		err = os.Mkdir(filepath.Join(dir, "servers"), 0o700)
	}
	if err == nil {
		_, err = codegen.NewDir(filepath.Join(dir, "servers"), filepath.Join(t.TempDir(), "lock")).Sync(t.Context(), servers)
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// onDisk returns the content of the files in a directory by path.
func onDisk(t testing.TB, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		content := "a link"
		if e.Type().IsRegular() {
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			content = string(b)
		}
		files[filepath.ToSlash(name)] = content
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}
