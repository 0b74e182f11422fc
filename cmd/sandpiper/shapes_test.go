package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"
)

// shapes serves tools over MCP whose schemas have forms that generators such as zod and Pydantic
// emit. Each answers with the arguments that it received.
func shapes(t *testing.T) string {
	t.Helper()
	tools := map[string]string{
		"either":    `{"type":"object","anyOf":[{"properties":{"a":{"type":"string"}},"required":["a"]},{"properties":{"from":{"type":"integer"}},"required":["from"]}]}`,
		"one":       `{"type":"object","oneOf":[{"$ref":"#/$defs/x"},{"properties":{"kind":{"const":"y"},"n":{"type":"integer"}},"required":["kind","n"]}],"$defs":{"x":{"properties":{"kind":{"const":"x"}},"required":["kind"]}}}`,
		"all":       `{"allOf":[{"type":"object","properties":{"a":{"type":"string"}},"required":["a"]},{"if":{"properties":{"a":{"const":"x"}}},"then":{"properties":{"b":{"type":"integer"}},"required":["b"]}}]}`,
		"nested":    `{"type":"object","properties":{"where":{"type":"object","oneOf":[{"properties":{"id":{"type":"integer"}},"required":["id"]},{"properties":{"name":{"type":"string"}},"required":["name"]}]}},"required":["where"]}`,
		"bare":      `{"type":"object"}`,
		"nullable":  `{"type":"object","properties":{"id":{"type":"integer"},"assignee":{"type":["string","null"]},"title":{"type":"string"}},"required":["id"]}`,
		"wait":      `{"type":"object","properties":{"id":{"type":"integer"},"s":{"type":"number"}},"required":["id","s"]}`,
		"cancelled": `{"type":"object","properties":{}}`,
		"zod":       `{"type":"object","properties":{"id":{"type":"integer"},"mode":{"type":"string","enum":["fast","slow"],"default":"fast"},"tags":{"type":"array","items":{"type":"string"},"default":[]}},"required":["id","mode","tags"]}`,
	}
	var mu sync.Mutex
	waiting, cancelled := map[string]int{}, []int{}
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m struct {
			ID     json.RawMessage
			Method string
			Params struct {
				Name      string
				Arguments json.RawMessage
				RequestID json.RawMessage `json:"requestId"`
			}
		}
		if r.Method != http.MethodPost || json.NewDecoder(r.Body).Decode(&m) != nil {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		var result string
		switch m.Method {
		case "initialize":
			result = `{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"shapes","version":"1"}}`
		case "tools/list":
			list := ""
			for name, input := range tools {
				list += fmt.Sprintf(`,{"name":%q,"description":"Returns its arguments.","inputSchema":%s}`, name, input)
			}
			result = `{"tools":[` + list[1:] + `]}`
		case "tools/call":
			text, _ := json.Marshal(string(m.Params.Arguments))
			switch m.Params.Name {
			case "wait":
				var a struct {
					ID int
					S  float64
				}
				_ = json.Unmarshal(m.Params.Arguments, &a)
				mu.Lock()
				waiting[string(m.ID)] = a.ID
				mu.Unlock()
				select {
				case <-time.After(time.Duration(a.S * float64(time.Second))):
				case <-r.Context().Done():
					return
				}
			case "cancelled":
				mu.Lock()
				list, _ := json.Marshal(cancelled)
				mu.Unlock()
				text, _ = json.Marshal(string(list))
			}
			result = fmt.Sprintf(`{"content":[{"type":"text","text":%s}]}`, text)
		case "notifications/cancelled":
			mu.Lock()
			cancelled = append(cancelled, waiting[string(m.Params.RequestID)])
			mu.Unlock()
			w.WriteHeader(http.StatusAccepted)
			return
		default:
			w.WriteHeader(http.StatusAccepted)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
	}))
	t.Cleanup(site.Close)
	return site.URL
}
