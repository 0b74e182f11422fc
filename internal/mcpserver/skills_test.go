package mcpserver_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver"
)

func TestSkillsAreListedInPages(t *testing.T) {
	p := connect(t, newServer(t, mcpserver.Standard))
	call := func(tool, args string) (text string) {
		p.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, tool, args))
		return p.receive().Result.Content[0].Text
	}
	var saved []string
	for i := range 120 {
		saved = append(saved, fmt.Sprintf("skill_%03d", i))
		if text := call("save_skill", fmt.Sprintf(`{"name":%q,"code":"x = 1"}`, saved[i])); !strings.Contains(text, `"success":true`) {
			t.Fatal(text)
		}
	}
	var listed []string
	var pages []int
	for offset := 0; ; {
		var page struct {
			Count  int
			Skills []struct{ Name string }
			Next   int `json:"next_offset"`
		}
		if err := json.Unmarshal([]byte(call("list_skills", fmt.Sprintf(`{"offset":%d}`, offset))), &page); err != nil || page.Count != len(saved) {
			t.Fatal(page, err)
		}
		for _, s := range page.Skills {
			listed = append(listed, s.Name)
		}
		if pages = append(pages, len(page.Skills)); page.Next == 0 {
			break
		}
		offset = page.Next
	}
	if !slices.Equal(listed, saved) || !slices.Equal(pages, []int{50, 50, 20}) {
		t.Errorf("pages of %v: %q", pages, listed)
	}
	if text := call("list_skills", `{"offset":500}`); !strings.Contains(text, `"count":120,"skills":[]`) || strings.Contains(text, "next_offset") {
		t.Error(text)
	}
	if text := call("list_skills", `{"offset":-1}`); !strings.Contains(text, "offset is -1") {
		t.Error(text)
	}
}
