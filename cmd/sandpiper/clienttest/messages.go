package clienttest

import "encoding/json"

// readMessages reads a request of the messages API.
func readMessages(body []byte) (r Request, stream bool, err error) {
	var q struct {
		Stream bool
		System json.RawMessage
		Tools  []struct {
			Name, Description string
			Deferred          bool `json:"defer_loading"`
		}
		Messages []struct{ Content json.RawMessage }
	}
	if err := json.Unmarshal(body, &q); err != nil {
		return r, false, err
	}
	for _, t := range q.Tools {
		if !t.Deferred {
			r.Tools = append(r.Tools, Tool{t.Name, t.Description})
		}
	}
	r.say(texts(q.System))
	for _, m := range q.Messages {
		var blocks []struct {
			Type, Text, ID string
			Of             string `json:"tool_use_id"`
			Content        json.RawMessage
		}
		if json.Unmarshal(m.Content, &blocks) != nil {
			r.say(texts(m.Content))
		}
		for _, b := range blocks {
			switch b.Type {
			case "text":
				r.say(b.Text)
			case "tool_result":
				r.add(b.Of, texts(b.Content))
			}
		}
	}
	return r, q.Stream, nil
}

// messageEvents are the events of a message with calls.
func messageEvents(calls []identified) []event {
	start := object{"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": []any{}, "stop_reason": nil,
		"stop_sequence": nil, "usage": object{"input_tokens": 10, "output_tokens": 1}}
	all := []event{typed("message_start", object{"message": start})}
	block := func(i int, content, delta object) {
		all = append(all, typed("content_block_start", object{"index": i, "content_block": content}),
			typed("content_block_delta", object{"index": i, "delta": delta}), typed("content_block_stop", object{"index": i}))
	}
	for i, c := range calls {
		block(i, object{"type": "tool_use", "id": c.id, "name": c.Tool, "input": object{}},
			object{"type": "input_json_delta", "partial_json": c.args()})
	}
	reason := "tool_use"
	if len(calls) == 0 {
		reason = "end_turn"
		block(0, object{"type": "text", "text": ""}, object{"type": "text_delta", "text": done})
	}
	return append(all, typed("message_delta", object{"delta": object{"stop_reason": reason, "stop_sequence": nil},
		"usage": object{"output_tokens": 2}}),
		typed("message_stop", object{}))
}

func wholeMessage(calls []identified) any {
	content, reason := []any{object{"type": "text", "text": done}}, "end_turn"
	for _, c := range calls {
		content, reason = append(content, object{"type": "tool_use", "id": c.id, "name": c.Tool, "input": c.Args}), "tool_use"
	}
	return object{"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": content, "stop_reason": reason,
		"stop_sequence": nil, "usage": object{"input_tokens": 10, "output_tokens": 1}}
}

// object is a JSON object.
type object = map[string]any

// typed returns an event whose data repeat its name.
func typed(name string, data object) event {
	data["type"] = name
	return event{name, data}
}
