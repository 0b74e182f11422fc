package reply

import (
	"context"
	"encoding/json"

	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/shape"
)

// redactPreview redacts the values in a preview that only their key identifies as
// private: a preview shows a column's values without the key. Minimum, maximum and mean
// of private numbers are removed.
func redactPreview(ctx context.Context, gate *redact.Gate, p *shape.Preview) error {
	v := &previewRedactor{gate: gate}
	v.preview("", p)
	var bare []map[string]json.RawMessage
	for _, f := range v.fields {
		bare = append(bare, map[string]json.RawMessage{f.key: f.value()})
	}
	b, err := json.Marshal(bare)
	if err != nil {
		return err
	}
	text, err := gate.Tokenize(ctx, "", string(b))
	if err != nil {
		return err
	}
	var veiled []map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &veiled); err != nil {
		return err
	}
	for i, f := range v.fields {
		for _, value := range veiled[i] { // the key may have been redacted too
			f.set(value)
		}
	}
	return nil
}

// previewRedactor collects the values of a preview together with their keys.
type previewRedactor struct {
	gate   *redact.Gate
	fields []field
}

type field struct {
	key   string
	value func() json.RawMessage
	set   func(json.RawMessage)
}

func (v *previewRedactor) preview(key string, p *shape.Preview) {
	if len(p.Value) > 0 {
		v.fields = append(v.fields, field{key, func() json.RawMessage { return p.Value }, func(b json.RawMessage) { p.Value = b }})
	}
	if p.Items != nil {
		v.stats(key, p.Items)
	}
	for i := range p.Columns {
		v.stats(p.Columns[i].Name, &p.Columns[i].Stats)
	}
	for i := range p.Keys {
		v.preview(p.Keys[i].Name, &p.Keys[i].Preview)
	}
}

func (v *previewRedactor) stats(key string, st *shape.Stats) {
	for i := range st.Values {
		at := &st.Values[i]
		v.fields = append(v.fields, field{key,
			func() json.RawMessage { return json.RawMessage(pythonString(*at)) },
			func(b json.RawMessage) { _ = json.Unmarshal(b, at) }, // a redacted string is a string
		})
	}
	for _, n := range []*float64{st.Min, st.Max} {
		if n == nil {
			continue
		}
		if text, err := json.Marshal(*n); err != nil || v.gate.ContainsPrivate(key, string(text)) {
			st.Min, st.Max, st.Mean = nil, nil, nil
			return
		}
	}
}
