package clienttest

import (
	"encoding/json"
	"fmt"
)

// readContents reads a request of the generateContent API. Its calls need no ids: results are in their order.
func readContents(body []byte) (r Request, stream bool, err error) {
	var q struct {
		Tools []struct {
			FunctionDeclarations []struct{ Name, Description string }
		}
		SystemInstruction struct{ Parts []struct{ Text string } }
		Contents          []struct {
			Role  string
			Parts []struct {
				Text             string
				FunctionCall     json.RawMessage
				FunctionResponse *struct{ Response json.RawMessage }
			}
		}
	}
	if err := json.Unmarshal(body, &q); err != nil {
		return r, false, err
	}
	for _, t := range q.Tools {
		for _, f := range t.FunctionDeclarations {
			r.Tools = append(r.Tools, Tool{f.Name, f.Description})
		}
	}
	for _, p := range q.SystemInstruction.Parts {
		r.say(p.Text)
	}
	for _, c := range q.Contents {
		turn, n := len(r.Results), 0
		for _, p := range c.Parts {
			switch {
			case p.FunctionResponse != nil:
				r.add(fmt.Sprintf("call_%d_%d", turn, n), texts(p.FunctionResponse.Response))
				n++
			case p.FunctionCall == nil:
				r.say(p.Text)
			}
		}
	}
	return r, false, nil
}

// contents is an answer with calls.
func contents(calls []identified) object {
	var parts []any
	for _, c := range calls {
		parts = append(parts, object{"functionCall": object{"name": c.Tool, "args": c.Args}, "thoughtSignature": "c2lnbmVk"})
	}
	if len(calls) == 0 {
		parts = []any{object{"text": done}}
	}
	return object{"candidates": []any{object{"index": 0, "finishReason": "STOP", "content": object{"role": "model", "parts": parts}}},
		"usageMetadata": object{"promptTokenCount": 10, "candidatesTokenCount": 2, "totalTokenCount": 12}, "modelVersion": "m"}
}

func contentEvents(calls []identified) []event { return []event{{data: contents(calls)}} }
