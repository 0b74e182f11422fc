package skill

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog"
)

// Tool is a tool that a skill uses, with its schemas when the skill was saved.
type Tool struct {
	tool.Ref
	Hash   string          `json:"hash"`             // of the schemas, SHA-256; "" if the tool was not known
	Input  json.RawMessage `json:"input,omitempty"`  // without descriptions; nil if it is too large
	Output json.RawMessage `json:"output,omitempty"` // likewise; nil also if the tool declares none
}

// Limits of the tools of a skill.
const (
	maxTools  = 100
	maxSchema = 32 << 10 // bytes of a schema that is stored
)

// NewTool returns the Tool for a definition.
func NewTool(d tool.Definition) Tool {
	t := Tool{Ref: d.Ref, Input: withoutTexts(d.Input), Output: withoutTexts(d.Output)}
	h := sha256.New()
	for _, schema := range []json.RawMessage{t.Input, t.Output} {
		fmt.Fprintf(h, "%d\n%s", len(schema), schema)
	}
	t.Hash = hex.EncodeToString(h.Sum(nil))
	if len(t.Input)+len(t.Output) > maxSchema {
		t.Input, t.Output = nil, nil
	}
	return t
}

// Tools are the tools of a skill. In JSON they are a list of SERVER.TOOL.
type Tools []Tool

// NewTools sorts tools and removes repetitions and those beyond the limit.
func NewTools(all []Tool) Tools {
	all = slices.Clone(all)
	slices.SortFunc(all, func(a, b Tool) int { return strings.Compare(a.String(), b.String()) })
	all = slices.CompactFunc(all, func(a, b Tool) bool { return a.Ref == b.Ref })
	return all[:min(len(all), maxTools)]
}

// MarshalJSON implements json.Marshaler.
func (t Tools) MarshalJSON() ([]byte, error) {
	names := make([]string, len(t))
	for i := range t {
		names[i] = t[i].String()
	}
	return json.Marshal(names)
}

func (t Tools) equal(o Tools) bool {
	return slices.EqualFunc(t, o, func(a, b Tool) bool { return a.Ref == b.Ref && a.Hash == b.Hash })
}

// Complete adds the schemas of tools that were not known when the skill was saved and are in the
// catalog now. It reports whether there are any. Those of quarantined tools are not added.
func (m *Metadata) Complete(now *catalog.Snapshot) (changed bool) {
	for i, t := range m.Tools {
		if t.Hash != "" {
			continue
		}
		found, ok := now.Function(t.Server, t.Ref.Tool)
		if !ok {
			found, ok = now.Find(now.Resolve(t.Ref))
		}
		if ok && found.Quarantined == nil {
			m.Tools[i], changed = NewTool(found.Definition), true
		}
	}
	if changed {
		m.Tools = NewTools(m.Tools)
	}
	return changed
}

// Mark sets Stale: how the tools of the skill have changed since it was saved, and Unavailable: the
// tools whose server is not there now. A tool that was not known when the skill was saved is not compared.
func (m *Metadata) Mark(now *catalog.Snapshot) {
	m.Stale, m.Unavailable = nil, nil
	for _, t := range m.Tools {
		if t.Hash == "" {
			continue
		}
		if why := unavailable(now, t.Server); why != "" {
			m.Unavailable = append(m.Unavailable, t.String()+": "+why)
			continue
		}
		if why := t.changes(now); why != "" {
			m.Stale = append(m.Stale, t.String()+": "+why)
		}
	}
}

// unavailable returns the reason why a server cannot be used, and the remedy; "" if it is connected.
func unavailable(now *catalog.Snapshot, server string) string {
	if err := now.Disabled.Check(server); err != nil {
		return fault.Message(err) + "; " + fault.Hint(err)
	}
	switch v, ok := now.Server(server); {
	case !ok:
		return "there is no server " + server + "; the operator can add it to servers: in the configuration"
	case !v.Connected:
		return "server " + server + " is known from a catalog only and not connected; the operator can add it to servers: in the " +
			"configuration"
	}
	return ""
}

// changes describes how the tool differs from the one in the catalog; "" if it does not.
func (t Tool) changes(now *catalog.Snapshot) string {
	found, ok := now.Find(t.Ref)
	if !ok {
		if v, _ := now.Server(t.Server); v.Listed.IsZero() { // as after an import of the tenant elsewhere
			return ""
		}
		return "the server no longer has it"
	}
	if found.Quarantined != nil { // a model must not see the new definition
		return "its definition has changed, and is quarantined until an operator accepts it"
	}
	current := NewTool(found.Definition)
	if current.Hash == t.Hash {
		return ""
	}
	all := append(schemaChanges("parameter", t.Input, current.Input), schemaChanges("result field", t.Output, current.Output)...)
	if len(all) == 0 {
		all = []string{"its schema has changed"}
	}
	if len(all) > maxChanges {
		all = append(all[:maxChanges], fmt.Sprintf("%d more changes", len(all)-maxChanges))
	}
	return strings.Join(all, ", ")
}

const maxChanges = 6

// schemaChanges lists the differences of the properties of two schemas.
func schemaChanges(what string, old, current json.RawMessage) (all []string) {
	was, is := objectSchema(old), objectSchema(current)
	if old == nil || current == nil {
		return nil
	}
	names := slices.Sorted(maps.Keys(was.Properties))
	for name := range is.Properties {
		if _, known := was.Properties[name]; !known {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		before, had := was.Properties[name]
		after, has := is.Properties[name]
		needed, needs := slices.Contains(was.Required, name), slices.Contains(is.Required, name)
		change := ""
		switch {
		case !has:
			change = "was removed"
		case !had && needs:
			change = "was added and is required"
		case !had:
			change = "was added"
		case !bytes.Equal(before, after):
			change = "has another type"
		case needs && !needed:
			change = "is required now"
		case needed && !needs:
			change = "is optional now"
		}
		if change != "" {
			all = append(all, fmt.Sprintf("%s %.60q %s", what, name, change))
		}
	}
	return all
}

type object struct {
	Properties map[string]json.RawMessage `json:"properties"`
	Required   []string                   `json:"required"`
}

// objectSchema returns the properties of a schema; none if it is not one of an object.
func objectSchema(schema json.RawMessage) (o object) {
	_ = json.Unmarshal(schema, &o)
	return o
}

// texts are the keywords of JSON schema that only explain.
var texts = []string{"title", "description", "examples", "$comment", "markdownDescription"}

// named are the keywords whose members are schemas under names of their own.
var named = []string{"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"}

// withoutTexts returns a schema in canonical form and without the keywords that only explain; nil
// if it is nil or no JSON.
func withoutTexts(schema json.RawMessage) json.RawMessage {
	var v any
	dec := json.NewDecoder(bytes.NewReader(schema))
	dec.UseNumber()
	if len(schema) == 0 || dec.Decode(&v) != nil {
		return nil
	}
	b, err := json.Marshal(strip(v))
	if err != nil {
		return nil
	}
	return b
}

// strip removes texts from a schema, or from the schemas in a list.
func strip(v any) any {
	switch v := v.(type) {
	case []any:
		for i := range v {
			v[i] = strip(v[i])
		}
	case map[string]any:
		for _, key := range texts {
			delete(v, key)
		}
		for key, member := range v {
			inner, ok := member.(map[string]any)
			switch {
			case ok && slices.Contains(named, key):
				for name := range inner {
					inner[name] = strip(inner[name])
				}
			case key != "enum" && key != "const" && key != "default":
				v[key] = strip(member)
			}
		}
	}
	return v
}
