package sandpiper

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect/encoded"
)

// Tools are the tools of the connected MCP servers.
type Tools struct{ client *Client }

// Tools returns the tools of the connected servers.
func (c *Client) Tools() Tools { return Tools{c} }

// Tool is a tool of a connected server.
type Tool struct {
	Name        string // SERVER.TOOL
	Description string
	Import      string          // from servers.github import list_issues
	Signature   string          // list_issues(repo: str) -> list[dict]
	Score       float64         // of a selection, relative to the best tool
	Input       json.RawMessage // JSON schema of the arguments; only of Describe, and for generators
	Output      json.RawMessage // likewise of the result; nil if it is not known
}

// found is a tool as Sandpiper describes it.
type found struct {
	Name, Description, Import, Signature string
	Server                               string          `json:"mcp_server"`
	Input                                json.RawMessage `json:"input_schema"`
	Output                               json.RawMessage `json:"output_schema"`
}

func (f found) tool() Tool {
	return Tool{
		Name:        f.Server + "." + f.Name,
		Description: f.Description,
		Import:      f.Import,
		Signature:   f.Signature,
		Input:       f.Input,
		Output:      f.Output,
	}
}

// Times of Search while servers are starting.
const (
	startingInterval = 300 * time.Millisecond
	startingLimit    = time.Minute
)

// Search returns the tools that match a description, best first: at most the given number, 1 to
// 100; 0 means 10. It waits for servers that are starting. If one of them takes longer than a minute,
// Search returns the tools of the others and an error.
func (t Tools) Search(ctx context.Context, query string, most int) ([]Tool, error) {
	args := map[string]any{"query": query, "detail_level": "full", "max_results": cmp.Or(most, 10)}
	var answer struct {
		Tools    []found
		Starting []string
	}
	for began := time.Now(); ; {
		answer.Tools, answer.Starting = nil, nil
		if err := t.client.do(ctx, "search_tools", args, &answer); err != nil {
			return nil, err
		}
		if len(answer.Starting) == 0 || time.Since(began) > startingLimit {
			break
		}
		select {
		case <-time.After(startingInterval):
		case <-ctx.Done():
			return nil, fmt.Errorf("sandpiper: search for tools: %w", context.Cause(ctx))
		}
	}
	all := make([]Tool, len(answer.Tools))
	for i, f := range answer.Tools {
		all[i] = f.tool()
	}
	if len(answer.Starting) > 0 {
		return all, fmt.Errorf("sandpiper: search for tools: those of %s are missing: still starting; search again later",
			strings.Join(answer.Starting, ", "))
	}
	return all, nil
}

// Describe returns a tool with its schemas.
func (t Tools) Describe(ctx context.Context, name string) (Tool, error) {
	var answer found
	err := t.client.do(ctx, "get_tool_definition", map[string]any{"tool_name": name, "schemas": true}, &answer)
	return answer.tool(), err
}

// Selection are the tools for a task, the best first.
type Selection struct {
	Tools     []Tool  // with Name and Score
	Available int     // tools that can be called
	Share     float64 // of Tools in them, 0 to 1
	Tokens    int64   // of the definitions of Tools
	AllTokens int64   `json:"all_tokens"` // of those of all tools
}

// Select returns the few tools that a task needs: at most topK, whose score relative to the best one
// is at least threshold. 0 means the defaults, 5 and 0.3.
func (t Tools) Select(ctx context.Context, task string, threshold float64, topK int) (*Selection, error) {
	args := map[string]any{"task_description": task}
	if threshold != 0 {
		args["threshold"] = threshold
	}
	if topK != 0 {
		args["top_k"] = topK
	}
	s := &Selection{}
	if err := t.client.do(ctx, "select_tools", args, s); err != nil {
		return nil, err
	}
	return s, nil
}

// OfServer returns the tools of a connected server with their names and descriptions; Describe returns
// the rest.
func (t Tools) OfServer(ctx context.Context, server string) ([]Tool, error) {
	var answer struct{ Tools []found }
	if err := t.client.do(ctx, "get_server_tools", map[string]any{"server_name": server}, &answer); err != nil {
		return nil, err
	}
	all := make([]Tool, len(answer.Tools))
	for i, f := range answer.Tools {
		f.Server = server
		all[i] = f.tool()
	}
	return all, nil
}

// Servers returns the states of the connected servers by name, such as ready, or failed and the reason.
func (t Tools) Servers(ctx context.Context) (map[string]string, error) {
	var answer struct {
		Servers []struct{ Name, State, Reason string }
	}
	err := t.client.do(ctx, "list_servers", nil, &answer)
	states := map[string]string{}
	for _, s := range answer.Servers {
		states[s.Name] = strings.TrimSuffix(s.State+": "+s.Reason, ": ")
	}
	return states, err
}

// Call calls SERVER.TOOL as code does, with policy and approvals; args marshal to a JSON object, and
// nil means none. Errors are as of Client.Execute.
func (t Tools) Call(ctx context.Context, name string, args any) (*Result, error) {
	server, tool, ok := strings.Cut(name, ".")
	if !ok {
		return nil, fmt.Errorf("sandpiper: call %q: the name must be SERVER.TOOL", name)
	}
	if strings.Contains(tool, ".") { // the name of the server may contain dots
		var f found
		if err := t.client.do(ctx, "get_tool_definition", map[string]any{"tool_name": name}, &f); err != nil {
			return nil, err
		}
		server, tool = f.Server, f.Name
	}
	if args == nil {
		args = map[string]any{}
	}
	return t.client.Run(ctx, Request{
		Code: "result = call_tool(server, tool, **arguments)",
		Vars: map[string]any{"server": server, "tool": tool, "arguments": args},
	})
}

// Files are the files of the workspace, the directory /workspace of code.
type Files struct{ client *Client }

// Files returns the files of the workspace.
func (c *Client) Files() Files { return Files{c} }

// maxPage is the largest page of a file that the server returns, in bytes.
const maxPage = 256 << 10

// Read returns the content of a file. Private values in text are tokens, as for a model. If images, tags
// or control characters were changed, so that nothing loads, Read returns the changed content and an
// error that describes how to work on the unchanged file.
func (f Files) Read(ctx context.Context, path string) ([]byte, error) {
	content, changed := []byte{}, 0
	for offset := int64(0); ; {
		var page struct {
			Content, Encoding string
			Next              int64  `json:"next_offset"`
			AsItIs            string `json:"as_it_is"`
			Neutralized       int
		}
		if err := f.client.do(ctx, "read_workspace_file", map[string]any{"filename": path, "offset": offset, "limit": maxPage},
			&page); err != nil {
			return nil, err
		}
		part, err := []byte(page.Content), error(nil)
		if page.Encoding == "base64" {
			part, err = base64.StdEncoding.DecodeString(page.Content)
		} else if u, ok := encoded.UnicodeNamed(page.Encoding); ok {
			part, err = u.Encode(page.Content)
		}
		if err != nil {
			return nil, fmt.Errorf("sandpiper: read %s: %w", path, err)
		}
		content = append(content, part...)
		if changed += page.Neutralized; page.Next <= offset && changed > 0 {
			return content, fmt.Errorf("sandpiper: read %s: %d parts of it were changed; %s", path, changed, page.AsItIs)
		}
		if page.Next <= offset {
			return content, nil
		}
		offset = page.Next
	}
}

// maxPart is the number of bytes that Write sends in one request.
const maxPart = 4 << 20

// Write writes a file, replacing what was there.
func (f Files) Write(ctx context.Context, path string, data []byte) error {
	if len(data) <= maxPart && utf8.Valid(data) {
		return f.client.do(ctx, "write_workspace_file", map[string]any{"filename": path, "content": string(data)}, nil)
	}
	code := "import base64; write_file(path, base64.b64decode(data))"
	for first := true; first || len(data) > 0; first = false {
		part := data[:min(len(data), maxPart)]
		data = data[len(part):]
		r := Request{Code: code, Vars: map[string]any{"path": path, "data": part}} // []byte marshals to base64
		if _, err := f.client.Run(ctx, r); err != nil {
			return fmt.Errorf("sandpiper: write %s: %w", path, err)
		}
		code = "import base64\nwith open(path, 'ab') as f: f.write(base64.b64decode(data))"
	}
	return nil
}

// List returns the names of all files below a directory; "" means the workspace. If there are more
// than 1,000, it returns the first ones and an error.
func (f Files) List(ctx context.Context, dir string) ([]string, error) {
	var answer struct {
		Files     []string
		Truncated bool
	}
	args := map[string]any{}
	if dir != "" {
		args["subpath"] = dir
	}
	if err := f.client.do(ctx, "list_workspace_files", args, &answer); err != nil {
		return nil, err
	}
	if answer.Truncated {
		return answer.Files, fmt.Errorf("sandpiper: list %q: there are too many files; list a directory of it", dir)
	}
	return answer.Files, nil
}

// Delete deletes a file or an empty directory.
func (f Files) Delete(ctx context.Context, path string) error {
	_, err := f.client.Run(ctx, Request{Code: "delete_file(path)", Vars: map[string]any{"path": path}})
	return err
}

// Skills are saved Python that code imports with "from skills import NAME".
type Skills struct{ client *Client }

// Skills returns the saved skills.
func (c *Client) Skills() Skills { return Skills{c} }

// Skill is a saved skill.
type Skill struct {
	Name        string
	Code        string // not in lists
	Description string
	Tags        []string
	Version     int // set by Sandpiper
}

// Save saves a skill; if there is one of its name, it gets another version.
func (s Skills) Save(ctx context.Context, skill Skill) error {
	args := map[string]any{"name": skill.Name, "code": skill.Code, "description": skill.Description}
	if skill.Tags != nil {
		args["tags"] = skill.Tags
	}
	return s.client.do(ctx, "save_skill", args, nil)
}

// Load returns the newest version of a skill, with its code.
func (s Skills) Load(ctx context.Context, name string) (Skill, error) {
	return s.LoadVersion(ctx, name, 0)
}

// LoadVersion returns a version of a skill, with its code; 0 is the newest.
func (s Skills) LoadVersion(ctx context.Context, name string, version int) (Skill, error) {
	args := map[string]any{"name": name}
	if version != 0 {
		args["version"] = version
	}
	var answer struct {
		Code     string
		Metadata Skill
	}
	err := s.client.do(ctx, "load_skill", args, &answer)
	answer.Metadata.Code = answer.Code
	return answer.Metadata, err
}

// Search returns the skills that match a purpose and have all of the tags, without their code: at most
// 20, the best first. "" matches all.
func (s Skills) Search(ctx context.Context, query string, tags ...string) ([]Skill, error) {
	args := map[string]any{"query": query}
	if len(tags) > 0 {
		args["tags"] = tags
	}
	var answer struct{ Skills []Skill }
	err := s.client.do(ctx, "search_skills", args, &answer)
	return answer.Skills, err
}

// List returns all skills, without their code.
func (s Skills) List(ctx context.Context) ([]Skill, error) {
	return listAll[Skill](ctx, s.client, "list_skills", "skills")
}

// listAll returns the entries of all pages of a tool; key has those of a page.
func listAll[T any](ctx context.Context, c *Client, tool, key string) (all []T, err error) {
	for {
		var answer map[string]json.RawMessage
		if err := c.do(ctx, tool, map[string]any{"offset": len(all)}, &answer); err != nil {
			return nil, err
		}
		var page []T
		if err := json.Unmarshal(answer[key], &page); err != nil {
			return nil, err
		}
		all = append(all, page...)
		if string(answer["next_offset"]) != strconv.Itoa(len(all)) {
			return all, nil // absent from the last page
		}
	}
}

// Delete deletes a skill.
func (s Skills) Delete(ctx context.Context, name string) error {
	return s.client.do(ctx, "delete_skill", map[string]any{"name": name}, nil)
}
