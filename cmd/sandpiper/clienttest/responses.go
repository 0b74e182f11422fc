package clienttest

import (
	"encoding/json"
	"strings"
)

// responseTool is a tool, or a namespace with tools.
type responseTool struct {
	Type, Name, Description string
	Tools                   []responseTool
}

// all returns the tools with the names of their namespaces.
func (t responseTool) all(namespace string) (all []Tool) {
	name := strings.TrimPrefix(namespace+"/"+t.Name, "/")
	if t.Name == "" {
		name = t.Type // a tool of the API itself
	}
	if t.Type != "namespace" {
		all = append(all, Tool{name, t.Description})
	}
	for _, inner := range t.Tools {
		all = append(all, inner.all(name)...)
	}
	return all
}

// readResponses reads a request of the responses API. The result of a search has a line for each
// tool that it found.
func readResponses(body []byte) (r Request, stream bool, err error) {
	var q struct {
		Instructions string
		Tools        []responseTool
		Input        []struct {
			Type            string
			CallID          string `json:"call_id"`
			Content, Output json.RawMessage
			Tools           []responseTool
		}
	}
	if err := json.Unmarshal(body, &q); err != nil {
		return r, false, err
	}
	for _, t := range q.Tools {
		r.Tools = append(r.Tools, t.all("")...)
	}
	r.say(q.Instructions)
	for _, i := range q.Input {
		switch i.Type {
		case "message":
			r.say(texts(i.Content))
		case "function_call_output", "custom_tool_call_output":
			r.add(i.CallID, texts(i.Output))
		case "tool_search_output":
			r.add(i.CallID, "")
			for _, t := range i.Tools {
				for _, found := range t.all("") {
					r.add(i.CallID, found.Name+"\n")
				}
			}
		}
	}
	return r, true, nil
}

// responseEvents are the events of a response with calls.
func responseEvents(calls []identified) []event {
	var items []any
	for _, c := range calls {
		item := object{"type": "function_call", "id": "fc_" + c.id, "call_id": c.id, "name": c.Tool, "arguments": c.args(),
			"status": "completed"}
		if c.Namespace != "" {
			item["namespace"] = c.Namespace
		}
		if c.Tool == ToolSearch {
			item = object{"type": "tool_search_call", "id": "ts_" + c.id, "call_id": c.id, "execution": "client", "status": "completed",
				"arguments": c.Args}
		}
		items = append(items, item)
	}
	if len(calls) == 0 {
		items = append(items, object{"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
			"content": []any{object{"type": "output_text", "text": done, "annotations": []any{}}}})
	}
	all := []event{typed("response.created", object{"response": object{"id": "r1"}})}
	for i, item := range items {
		all = append(all, typed("response.output_item.added", object{"output_index": i, "item": item}),
			typed("response.output_item.done", object{"output_index": i, "item": item}))
	}
	return append(all, typed("response.completed", object{"response": object{"id": "r1", "output": items,
		"usage": object{"input_tokens": 1, "input_tokens_details": nil, "output_tokens": 1, "output_tokens_details": nil,
			"total_tokens": 2}}}))
}
