package oauthtest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

func (s *Server) describe(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	resource := s.Resource
	if resource == "" {
		resource = s.URL
	}
	answer(w, http.StatusOK, map[string]any{"resource": resource, "authorization_servers": []string{s.Issuer},
		"scopes_supported": []string{"read"}})
}

// mcp is the MCP server, which requires tokens. It has one tool, which returns its argument.
func (s *Server) mcp(w http.ResponseWriter, r *http.Request) {
	var m struct {
		ID     json.RawMessage
		Method string
		Params struct{ Arguments struct{ X string } }
	}
	if r.Method != http.MethodPost || json.NewDecoder(r.Body).Decode(&m) != nil {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	if !s.admits(w, r, m.Method) {
		return
	}
	result := `{}`
	switch m.Method {
	case "server/discover":
		w.WriteHeader(http.StatusBadRequest)
		return
	case "initialize":
		result = `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"guarded","version":"1"}}`
	case "tools/list":
		result = `{"tools":[{"name":"echo","inputSchema":{"type":"object","properties":{"x":{"type":"string"}}},"annotations":{"readOnlyHint":true}}]}`
	case "tools/call":
		text, _ := json.Marshal(m.Params.Arguments.X)
		result = fmt.Sprintf(`{"content":[{"type":"text","text":%s}]}`, text)
	}
	if m.ID == nil {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
}

// admits checks the token of a request.
func (s *Server) admits(w http.ResponseWriter, r *http.Request, method string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if method == "tools/call" {
		s.count["call"]++
	}
	token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	g, ok := s.access[token]
	at := fmt.Sprintf(`Bearer resource_metadata="%s"`, strings.TrimSuffix(s.URL, "/mcp")+"/.well-known/oauth-protected-resource/mcp")
	if !ok || time.Now().After(g.end) {
		w.Header().Set("WWW-Authenticate", at)
		http.Error(w, "unknown token "+token, http.StatusUnauthorized)
		return false
	}
	if s.Scopes == nil {
		return true
	}
	for _, scope := range s.Scopes(r, method) {
		if !slices.Contains(g.scopes, scope) {
			w.Header().Set("WWW-Authenticate", at+fmt.Sprintf(`, error="insufficient_scope", scope="%s"`, scope))
			http.Error(w, "insufficient scope", http.StatusForbidden)
			return false
		}
	}
	return true
}
