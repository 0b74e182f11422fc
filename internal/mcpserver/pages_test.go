package mcpserver_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver/builtin"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/fake"
)

func TestSkillsAreListedInPages(t *testing.T) {
	p := connect(t, newServer(t, builtin.Standard))
	testPages(t, p, "skills", func(name string) error {
		if text := callText(p, "save_skill", fmt.Sprintf(`{"name":%q,"code":"x = 1"}`, name)); !strings.Contains(text, `"success":true`) {
			return errors.New(text)
		}
		return nil
	})
}

func TestWorkflowsAreListedInPages(t *testing.T) {
	data := t.TempDir()
	p := connect(t, newServerIn(t, data, builtin.Full, fake.New(fake.Config{})))
	dir := filepath.Join(data, "workflows")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	testPages(t, p, "workflows", func(name string) error {
		return os.WriteFile(filepath.Join(dir, name+".yaml"), []byte("name: "+name), 0o600)
	})
}

func callText(p *peer, tool, args string) string {
	p.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, tool, args))
	return p.receive().Result.Content[0].Text
}

// testPages saves entries and lists them with the tool for key.
func testPages(t *testing.T, p *peer, key string, save func(name string) error) {
	list := "list_" + key
	var saved []string
	for i := range 120 {
		saved = append(saved, fmt.Sprintf("entry_%03d", i))
		if err := save(saved[i]); err != nil {
			t.Fatal(err)
		}
	}
	var listed []string
	var pages []int
	for offset := 0; ; {
		var page struct {
			Count             int
			Skills, Workflows []struct{ Name string }
			Next              int `json:"next_offset"`
		}
		if err := json.Unmarshal([]byte(callText(p, list, fmt.Sprintf(`{"offset":%d}`, offset))), &page); err != nil ||
			page.Count != len(saved) {
			t.Fatal(page, err)
		}
		entries := append(page.Skills, page.Workflows...)
		for _, e := range entries {
			listed = append(listed, e.Name)
		}
		if pages = append(pages, len(entries)); page.Next == 0 {
			break
		}
		offset = page.Next
	}
	if !slices.Equal(listed, saved) || !slices.Equal(pages, []int{50, 50, 20}) {
		t.Errorf("pages of %v: %q", pages, listed)
	}
	if text := callText(p, list, `{"offset":500}`); !strings.Contains(text, fmt.Sprintf(`"count":120,%q:[]`, key)) || strings.Contains(text,
		"next_offset") {
		t.Error(text)
	}
	if text := callText(p, list, `{"offset":-1}`); !strings.Contains(text, "offset is -1") || !strings.Contains(text, key) {
		t.Error(text)
	}
}
