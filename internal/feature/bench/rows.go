package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// rowsServer is the argument of `sandpiper bench` that serves rows on stdin and stdout.
const rowsServer = "rows-server"

// rowsArgs are the arguments of the tools of the server of rows.
type rowsArgs struct {
	Bytes int `json:"bytes" jsonschema:"approximate size of the answer"`
}

// serveRows serves an MCP server on stdin and stdout until ctx ends. Its tools return JSON
// rows of the requested size: rows_as_text as text, rows_as_json as structured content.
func serveRows(ctx context.Context) error {
	s := mcp.NewServer(&mcp.Implementation{Name: "rows", Version: "1"}, nil)
	mcp.AddTool(s, &mcp.Tool{Name: "rows_as_text"}, func(_ context.Context, _ *mcp.CallToolRequest, in rowsArgs) (*mcp.CallToolResult, any,
		error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: string(makeRows(in.Bytes))}}}, nil, nil
	})
	mcp.AddTool(s, &mcp.Tool{Name: "rows_as_json"}, func(_ context.Context, _ *mcp.CallToolRequest, in rowsArgs) (*mcp.CallToolResult, any,
		error) {
		return &mcp.CallToolResult{Content: []mcp.Content{}, StructuredContent: json.RawMessage(makeRows(in.Bytes))}, nil, nil
	})
	return s.Run(ctx, &mcp.StdioTransport{})
}

// makeRows returns a JSON object of at least size bytes with customers, as a business system
// returns them.
func makeRows(size int) []byte {
	var b bytes.Buffer
	b.Grow(size + 512)
	b.WriteString(`{"rows":[`)
	for i := 0; b.Len() < size; i++ {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"id":%d,"name":"Customer `+
			`%05d","email":"customer%d@example.com","status":%q,"region":%q,"amount":%d.%02d,"active":%t,"note":%q}`, i, i, i,
			[]string{"active", "closed", "new"}[i%3], []string{"north", "south", "east", "west"}[i%4], i%997, i%100, i%2 == 0,
			strings.Repeat("lorem ipsum ", 2+i%5))
	}
	b.WriteString(`]}`)
	return b.Bytes()
}
