package catalog

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// Static is a catalog of tools that is read from a file. Its servers need not be
// connected.
type Static struct {
	Categories map[string]StaticCategory `json:"categories"`
	Total      int                       `json:"total_tools"` // as stated in the file
	Core       []string                  `json:"core_mcps"`
}

// StaticCategory is a category of a static catalog. Its tools are keyed by name.
type StaticCategory struct {
	Description string                `json:"description"`
	Tools       map[string]StaticTool `json:"tools"`
}

// StaticTool is a tool of a static catalog.
type StaticTool struct {
	Server      string          `json:"mcp_server"`
	Description string          `json:"description"`
	Functions   []string        `json:"functions"`
	UseCases    []string        `json:"use_cases"`
	Input       json.RawMessage `json:"input_schema"` // also inputSchema or parameters
	Output      json.RawMessage `json:"output_schema"`
}

// UnmarshalJSON also reads the keys of MCP and of function calling. Of schemas it keeps those
// that can be one: an object or a boolean.
func (t *StaticTool) UnmarshalJSON(b []byte) error {
	type plain StaticTool
	v := struct {
		plain
		InputSchema  json.RawMessage `json:"inputSchema"`
		Parameters   json.RawMessage `json:"parameters"`
		OutputSchema json.RawMessage `json:"outputSchema"`
	}{plain: plain(*t)} // of which keys that are missing remain
	v.Input, v.Output = nil, nil
	if err := json.Unmarshal(b, &v); err != nil {
		return err
	}
	v.Input = firstSchema(v.Input, v.InputSchema, v.Parameters, t.Input)
	v.Output = firstSchema(v.Output, v.OutputSchema, t.Output)
	*t = StaticTool(v.plain)
	return nil
}

func firstSchema(all ...json.RawMessage) json.RawMessage {
	for _, s := range all {
		if len(s) > 0 && (s[0] == '{' || string(s) == "true" || string(s) == "false") {
			return s
		}
	}
	return nil
}

// maxStaticSize is the maximum size of a static catalog's file in bytes.
const maxStaticSize = 64 << 20

// ReadStatic reads a full_catalog.json, or a directory with a full_catalog.json, with files
// CATEGORY/TOOL.json, or with both. A file replaces the definition of its tool in the catalog.
func ReadStatic(path string) (Static, error) {
	fi, err := os.Stat(path)
	if err != nil {
		return Static{}, fault.Wrap(fault.Invalid, err, "cannot read the tool catalog %s", path).
			WithHint("correct catalog in the configuration")
	}
	if !fi.IsDir() {
		var s Static
		err := read(path, &s)
		return s, err
	}
	var s Static
	full := filepath.Join(path, "full_catalog.json")
	_, absent := os.Stat(full)
	if err = absent; err == nil {
		_, err = os.ReadDir(path) // Glob ignores its error
	}
	if fault.Inconclusive(err) {
		return s, fault.Wrap(fault.Unavailable, err, "cannot read the tool catalog %s", path)
	}
	if absent == nil {
		if err := read(full, &s); err != nil {
			return s, err
		}
	}
	files, err := filepath.Glob(filepath.Join(path, "*", "*.json"))
	if err != nil || len(files) == 0 && absent != nil {
		return Static{}, fault.New(fault.Invalid, "the directory %s contains no tool catalog", path).
			WithHint("it must contain full_catalog.json, or a directory for each category with a .json file for each tool")
	}
	if s.Categories == nil {
		s.Categories = map[string]StaticCategory{}
	}
	for _, file := range files {
		category, name := filepath.Base(filepath.Dir(file)), strings.TrimSuffix(filepath.Base(file), ".json")
		t := s.Categories[category].Tools[name]
		if err := read(file, &t); err != nil {
			return s, err
		}
		s.put(category, name, t)
	}
	return s, nil
}

func (s *Static) put(category, name string, t StaticTool) {
	c := s.Categories[category]
	if c.Tools == nil {
		c.Tools = map[string]StaticTool{}
	}
	c.Tools[name] = t
	s.Categories[category] = c
}

func read(path string, v any) error {
	fi, err := os.Stat(path)
	if err == nil && fi.Size() > maxStaticSize {
		return fault.New(fault.Invalid, "the tool catalog %s has %d bytes; the maximum is %d", path, fi.Size(), maxStaticSize)
	}
	if err == nil && !fi.Mode().IsRegular() { // opening a pipe would block
		return fault.New(fault.Invalid, "the tool catalog %s is not a regular file", path)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return fault.Wrap(fault.Invalid, err, "cannot read the tool catalog %s", path)
	}
	if err := json.Unmarshal(b, v); err != nil {
		return fault.Wrap(fault.Invalid, err, "the tool catalog %s is not JSON of the expected structure: %s", path, reason(err)).
			WithHint("see docs/servers.md for the structure")
	}
	return nil
}

// reason returns the JSON decoder's message, which quotes at most one character of
// the file.
func reason(err error) string { return strings.TrimPrefix(err.Error(), "json: ") }
