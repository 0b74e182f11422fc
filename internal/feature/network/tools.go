package network

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/tool"
)

// methods are the methods of the tools, which have their names in lower case.
var methods = []string{"GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE"}

// reads reports whether a method changes nothing (RFC 9110, section 9.2.1).
func reads(method string) bool { return method == "GET" || method == "HEAD" || method == "OPTIONS" }

// definitions returns a tool for each method, so that policy can distinguish them.
func definitions(server string) (all []tool.Definition) {
	yes, no := true, false
	for _, m := range methods {
		read := reads(m)
		d := tool.Definition{
			Ref: tool.Ref{Server: server, Tool: strings.ToLower(m)}, Input: inputSchema, Output: outputSchema,
			Description: "Send an HTTP " + m + " request to a host that the operator allows. In code, fetch(url, method) is easier.",
			Hints:       tool.Hints{ReadOnly: &read, Destructive: &no, OpenWorld: &yes},
		}
		if !read && m != "POST" && m != "PATCH" { // RFC 9110, section 9.2.2
			d.Hints.Idempotent = &yes
		}
		if m == "DELETE" {
			d.Hints.Destructive = &yes
		}
		all = append(all, d)
	}
	return all
}

var inputSchema = json.RawMessage(`{"type":"object","additionalProperties":false,"required":["url"],"properties":{` +
	`"url":{"type":"string","description":"https://HOST/PATH"},` +
	`"headers":{"type":"object","additionalProperties":{"type":"string"}},` +
	`"json":{"description":"Body, sent as JSON"},` +
	`"text":{"type":"string","description":"Body, sent as it is"},` +
	`"base64":{"type":"string","description":"Body of bytes"},` +
	`"timeout":{"type":"number","exclusiveMinimum":0,"description":"Seconds"}}}`)

var outputSchema = json.RawMessage(`{"type":"object","required":["status","headers","url"],"properties":{` +
	`"status":{"type":"integer"},"reason":{"type":"string"},"url":{"type":"string"},` +
	`"headers":{"type":"array","items":{"type":"array","items":{"type":"string"}}},` +
	`"text":{"type":"string","description":"Body"},` +
	`"file":{"type":"object","description":"File with a body too large for memory"}}}`)

// refuse returns the error for a request that is not sent because of a rule of this package.
func refuse(ref tool.Ref, rule, format string, args ...any) error {
	return &tool.Failure{Ref: ref, Message: fmt.Sprintf(format, args...), Refused: "network:" + rule}
}
