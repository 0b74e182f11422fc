// Command sheets is a small MCP server with tables of fictitious people, which it
// generates row by row with fixed content. It is an example, and a server for the
// project's tests, which need personal data that may be published.
package main

import (
	"context"
	"fmt"
	"log"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// sheets lists the tables with their number of rows.
var sheets = []sheet{
	{"customers", 10_000, "people who bought something"},
	{"prospects", 40, "people who requested an offer"},
}

const maxPage = 1000

type sheet struct {
	Name  string `json:"name"`
	Rows  int    `json:"rows"`
	About string `json:"about"`
}

type noArguments struct{}

type list struct {
	Sheets []sheet `json:"sheets"`
}

type span struct {
	Sheet  string `json:"sheet" jsonschema:"name of a sheet"`
	Offset int    `json:"offset,omitempty" jsonschema:"how many rows to skip"`
	Limit  int    `json:"limit,omitempty" jsonschema:"how many rows to read, 100 unless given, at most 1000"`
}

type page struct {
	Rows  []person `json:"rows"`
	Total int      `json:"total" jsonschema:"rows in the sheet"`
}

func main() {
	s := mcp.NewServer(&mcp.Implementation{Name: "sheets", Version: "1.0.0"},
		&mcp.ServerOptions{Instructions: "The people here are made up."})
	closed := false
	readOnly := &mcp.ToolAnnotations{ReadOnlyHint: true, IdempotentHint: true, OpenWorldHint: &closed}
	mcp.AddTool(s, &mcp.Tool{Name: "list_sheets", Description: "List the sheets and how many rows each has.", Annotations: readOnly},
		func(context.Context, *mcp.CallToolRequest, noArguments) (*mcp.CallToolResult, list, error) {
			return nil, list{sheets}, nil
		})
	mcp.AddTool(s, &mcp.Tool{Name: "read_rows", Description: "Read rows of a sheet of invented people.", Annotations: readOnly},
		func(_ context.Context, _ *mcp.CallToolRequest, in span) (*mcp.CallToolResult, page, error) {
			p, err := read(in)
			return nil, p, err
		})
	if err := s.Run(context.Background(), &mcp.StdioTransport{}); err != nil {
		log.Fatal(err)
	}
}

func read(in span) (page, error) {
	s, err := find(in.Sheet)
	if err != nil {
		return page{}, err
	}
	if in.Limit == 0 {
		in.Limit = 100
	}
	if in.Offset < 0 || in.Limit < 1 || in.Limit > maxPage {
		return page{}, fmt.Errorf("offset is %d and limit is %d: offset is at least 0, limit 1 to %d", in.Offset, in.Limit, maxPage)
	}
	p := page{Rows: []person{}, Total: s.Rows}
	for i := in.Offset; i < s.Rows && i-in.Offset < in.Limit; i++ {
		p.Rows = append(p.Rows, invent(s.Name, i))
	}
	return p, nil
}

func find(name string) (sheet, error) {
	i := slices.IndexFunc(sheets, func(s sheet) bool { return s.Name == name })
	if i < 0 {
		var names []string
		for _, s := range sheets {
			names = append(names, s.Name)
		}
		return sheet{}, fmt.Errorf("there is no sheet %q; the sheets are %s", name, strings.Join(names, " and "))
	}
	return sheets[i], nil
}
