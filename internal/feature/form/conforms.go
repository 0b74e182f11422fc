package form

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/sandpiper-mcp/sandpiper/internal/execution/hostcall"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/schema"
)

// Problem is why a document is refused.
type Problem struct {
	Problem string `json:"problem"` // "broken": of the schema; "pattern": of the document
	Message string `json:"message"`
}

type args struct {
	Schema   string `json:"schema"`
	Document string `json:"document"`
}

// methods returns the host call by which code checks the document that it made of a JSON Schema.
func methods() []hostcall.Method {
	return []hostcall.Method{hostcall.New("conforms", 0, func(_ context.Context, a args) (any, error) {
		return Check(a.Schema, a.Document)
	})}
}

// Check returns why a JSON document does not conform to a JSON Schema with the formats that it names, or
// nil. References to other documents are not followed.
func Check(of, document string) (*Problem, error) {
	s, err := schema.CompileWhole(json.RawMessage(of))
	if err != nil {
		return &Problem{"broken", fmt.Sprintf("the JSON Schema is not valid: %.300s", err)}, nil
	}
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(document))
	if err != nil {
		return nil, err
	}
	err = s.Validate(value)
	if invalid, ok := errors.AsType[*jsonschema.ValidationError](err); ok {
		return &Problem{"pattern", "the filled document does not conform to the JSON Schema in: " + places(invalid)}, nil
	}
	if err != nil {
		return &Problem{"broken", fmt.Sprintf("the JSON Schema cannot be used: %.300s", err)}, nil
	}
	return nil, nil
}

// maxPlaces limits the places that are listed.
const maxPlaces = 5

// places lists the first places that do not conform, without values.
func places(invalid *jsonschema.ValidationError) string {
	var found []string
	var walk func(e *jsonschema.ValidationError)
	walk = func(e *jsonschema.ValidationError) {
		switch {
		case len(found) > maxPlaces:
		case len(found) == maxPlaces && len(e.Causes) == 0:
			found = append(found, "…")
		case len(e.Causes) == 0:
			found = append(found, "/"+strings.Join(e.InstanceLocation, "/")+" ("+strings.Join(e.ErrorKind.KeywordPath(), "/")+")")
		}
		for _, c := range e.Causes {
			walk(c)
		}
	}
	walk(invalid)
	return strings.Join(found, ", ")
}
