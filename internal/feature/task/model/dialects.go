package model

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
)

// dialect is the protocol of a provider.
type dialect struct {
	usual string // default URL
	// path returns the URL of requests, from that of the endpoint.
	path func(cfg Config, base string) string
	key  func(h http.Header, key string)
	// body returns the request; old is the one for endpoints that reject newer parameters.
	body func(cfg Config, q question, old bool) any
	// read adds an event to an answer. failed is the code of an error in the stream.
	read func(data []byte, a *answer) (text string, last bool, failed string)
}

var dialects = map[string]dialect{
	OpenAI:    {"https://api.openai.com/v1", openAIPath, bearer, openAIBody, readOpenAI},
	Azure:     {"", azurePath, func(h http.Header, key string) { h.Set("Api-Key", key) }, openAIBody, readOpenAI},
	Anthropic: {"https://api.anthropic.com", anthropicPath, anthropicKey, anthropicBody, readAnthropic},
}

func bearer(h http.Header, key string) { h.Set("Authorization", "Bearer "+key) }

func openAIPath(_ Config, base string) string { return base + "/chat/completions" }

func azurePath(cfg Config, base string) string {
	base = strings.TrimSuffix(base, "/openai/v1")
	if cfg.APIVersion == "" {
		return base + "/openai/v1/chat/completions"
	}
	return base + "/openai/deployments/" + url.PathEscape(cfg.Name) + "/chat/completions?api-version=" + url.QueryEscape(cfg.APIVersion)
}

func anthropicPath(_ Config, base string) string {
	return strings.TrimSuffix(base, "/v1") + "/v1/messages"
}

func anthropicKey(h http.Header, key string) { h.Set("X-Api-Key", key) }

type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

type openAIRequest struct {
	Model     string      `json:"model"`
	Messages  []message   `json:"messages"`
	Stream    bool        `json:"stream"`
	Usage     *usageAsked `json:"stream_options,omitempty"`
	MaxTokens int         `json:"max_completion_tokens,omitempty"`
	OldMax    int         `json:"max_tokens,omitempty"`
}

type usageAsked struct {
	Include bool `json:"include_usage"`
}

// newer are the parameters that older endpoints reject: max_completion_tokens, which
// newer models require, and stream_options.
var newer = []string{"max_completion_tokens", "stream_options"}

func openAIBody(cfg Config, q question, old bool) any {
	r := openAIRequest{Model: cfg.Name, Stream: true, Messages: []message{{"system", q.system}, {"user", q.prompt}}}
	if old {
		r.OldMax = q.max
	} else {
		r.MaxTokens, r.Usage = q.max, &usageAsked{true}
	}
	return r
}

// openAIChunk is one event of a chat completion.
type openAIChunk struct {
	Choices []struct {
		Delta struct {
			Content string `json:"content"`
			Refusal string `json:"refusal"`
		} `json:"delta"`
		Finish string `json:"finish_reason"`
	} `json:"choices"`
	Usage *struct {
		Input  int64 `json:"prompt_tokens"`
		Output int64 `json:"completion_tokens"`
	} `json:"usage"`
	Error *problem `json:"error"`
}

// problem is an error of an endpoint, in a response or a stream. Its message may repeat the key.
type problem struct {
	Type string `json:"type"`
	Code any    `json:"code"` // a string, a number or nothing
}

func (p problem) code() string {
	if code, ok := p.Code.(string); ok && code != "" {
		return code
	}
	return p.Type
}

func readOpenAI(data []byte, a *answer) (text string, last bool, failed string) {
	if string(data) == "[DONE]" {
		return "", true, ""
	}
	var c openAIChunk
	if json.Unmarshal(data, &c) != nil {
		return "", false, "invalid_event"
	}
	if c.Error != nil {
		return "", false, nameOf(*c.Error)
	}
	if c.Usage != nil {
		a.input, a.output = c.Usage.Input, c.Usage.Output
	}
	if len(c.Choices) == 0 {
		return "", false, ""
	}
	first := c.Choices[0]
	switch first.Finish {
	case "":
	case "length":
		a.finished, a.truncated = true, true
	case "content_filter":
		a.finished, a.refused = true, true
	default:
		a.finished = true
	}
	a.refused = a.refused || first.Delta.Refusal != ""
	return first.Delta.Content, false, ""
}

type anthropicRequest struct {
	Model     string    `json:"model"`
	MaxTokens int       `json:"max_tokens"`
	System    string    `json:"system"`
	Messages  []message `json:"messages"`
	Stream    bool      `json:"stream"`
}

func anthropicBody(cfg Config, q question, _ bool) any {
	return anthropicRequest{cfg.Name, q.max, q.system, []message{{"user", q.prompt}}, true}
}

// anthropicUsage is reported at the start, and at the end with the tokens of the answer.
type anthropicUsage struct {
	Input   int64 `json:"input_tokens"`
	Created int64 `json:"cache_creation_input_tokens"`
	Cached  int64 `json:"cache_read_input_tokens"`
	Output  int64 `json:"output_tokens"`
}

// anthropicEvent is one event of a message.
type anthropicEvent struct {
	Type    string `json:"type"`
	Message struct {
		Usage anthropicUsage `json:"usage"`
	} `json:"message"`
	Delta struct {
		Type string `json:"type"`
		Text string `json:"text"`
		Stop string `json:"stop_reason"`
	} `json:"delta"`
	Usage anthropicUsage `json:"usage"`
	Error *problem       `json:"error"`
}

func readAnthropic(data []byte, a *answer) (text string, last bool, failed string) {
	var e anthropicEvent
	if json.Unmarshal(data, &e) != nil {
		return "", false, "invalid_event"
	}
	switch e.Type {
	case "error":
		if e.Error == nil {
			e.Error = &problem{}
		}
		return "", false, nameOf(*e.Error)
	case "message_start":
		u := e.Message.Usage
		a.input = u.Input + u.Created + u.Cached
	case "content_block_delta":
		if e.Delta.Type == "text_delta" {
			return e.Delta.Text, false, ""
		}
	case "message_delta":
		a.finished = e.Delta.Stop != ""
		a.truncated = e.Delta.Stop == "max_tokens" || e.Delta.Stop == "model_context_window_exceeded"
		a.refused = e.Delta.Stop == "refusal"
		a.output = e.Usage.Output
	case "message_stop":
		return "", true, ""
	}
	return "", false, ""
}
