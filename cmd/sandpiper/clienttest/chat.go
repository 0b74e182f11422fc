package clienttest

import "encoding/json"

// readChat reads a request of the chat completions API.
func readChat(body []byte) (r Request, stream bool, err error) {
	var q struct {
		Stream bool
		Tools  []struct {
			Function struct{ Name, Description string }
		}
		Messages []struct {
			Role    string
			Of      string `json:"tool_call_id"`
			Content json.RawMessage
		}
	}
	if err := json.Unmarshal(body, &q); err != nil {
		return r, false, err
	}
	for _, t := range q.Tools {
		r.Tools = append(r.Tools, Tool{t.Function.Name, t.Function.Description})
	}
	for _, m := range q.Messages {
		if m.Role == "tool" {
			r.add(m.Of, texts(m.Content))
		} else {
			r.say(texts(m.Content))
		}
	}
	return r, q.Stream, nil
}

// chatMessage returns the message or delta of an answer, and why it ends.
func chatMessage(calls []identified) (message object, reason string) {
	if len(calls) == 0 {
		return object{"role": "assistant", "content": done}, "stop"
	}
	var all []any
	for i, c := range calls {
		all = append(all, object{"index": i, "id": c.id, "type": "function", "function": object{"name": c.Tool, "arguments": c.args()}})
	}
	return object{"role": "assistant", "content": nil, "tool_calls": all}, "tool_calls"
}

// chatEvents are the chunks of an answer.
func chatEvents(calls []identified) []event {
	message, reason := chatMessage(calls)
	chunk := func(delta object, reason any) event {
		return event{data: object{"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m",
			"choices": []any{object{"index": 0, "delta": delta, "finish_reason": reason}}}}
	}
	return []event{chunk(message, nil), chunk(object{}, reason),
		{data: object{"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": []any{}, "usage": chatUsage}},
		{data: "[DONE]"}}
}

var chatUsage = object{"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12}

func wholeChat(calls []identified) any {
	message, reason := chatMessage(calls)
	return object{"id": "c1", "object": "chat.completion", "created": 1, "model": "m",
		"choices": []any{object{"index": 0, "message": message, "finish_reason": reason}}, "usage": chatUsage}
}
