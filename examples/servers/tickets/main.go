// Command tickets is a small MCP server that stores the tickets of a help desk in memory.
// It is an example, and a server for the project's tests.
package main

import (
	"cmp"
	"context"
	"fmt"
	"log"
	"slices"
	"strings"
	"sync"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// enums lists the values of arguments.
var enums = map[string][]any{
	"priority": {"low", "normal", "high", "urgent"},
	"status":   {"open", "closed", "all"},
}

type newTicket struct {
	Title    string   `json:"title"`
	Priority string   `json:"priority,omitempty" jsonschema:"normal if left out"`
	Assignee string   `json:"assignee,omitempty" jsonschema:"name of the person who works on it"`
	Due      string   `json:"due,omitempty" jsonschema:"a date, such as 2027-03-31"`
	Labels   []string `json:"labels,omitempty"`
	Private  bool     `json:"private,omitempty" jsonschema:"whether only staff can see it"`
}

type ticket struct {
	ID     int    `json:"id"`
	Status string `json:"status" jsonschema:"open or closed"`
	newTicket
	Comment string `json:"comment,omitempty"`
}

type filter struct {
	Status   string `json:"status,omitempty" jsonschema:"open if left out"`
	Priority string `json:"priority,omitempty" jsonschema:"only tickets of this priority"`
	Label    string `json:"label,omitempty" jsonschema:"only tickets with this label"`
	Limit    int    `json:"limit,omitempty" jsonschema:"how many tickets at most"`
}

type tickets struct {
	Tickets []ticket `json:"tickets"`
}

type key struct {
	ID int `json:"id" jsonschema:"number of the ticket"`
}

type closing struct {
	ID      int    `json:"id" jsonschema:"number of the ticket"`
	Comment string `json:"comment,omitempty"`
}

type update struct {
	ID      int     `json:"id" jsonschema:"number of the ticket"`
	Changes changes `json:"changes" jsonschema:"new values of members"`
}

type changes struct {
	Title    string `json:"title,omitempty"`
	Priority string `json:"priority,omitempty"`
	Assignee string `json:"assignee,omitempty"`
	Due      string `json:"due,omitempty" jsonschema:"a date, such as 2027-03-31"`
}

func main() {
	if err := new(desk).serve(); err != nil {
		log.Fatal(err)
	}
}

// desk is safe for concurrent use.
type desk struct {
	mu      sync.Mutex
	tickets []ticket // ID is the index + 1
}

func (d *desk) serve() error {
	s := mcp.NewServer(&mcp.Implementation{Name: "tickets", Version: "1.0.0"}, nil)
	yes, no := true, false
	add := &mcp.ToolAnnotations{DestructiveHint: &no, OpenWorldHint: &no}
	change := &mcp.ToolAnnotations{DestructiveHint: &yes, IdempotentHint: true, OpenWorldHint: &no}
	readOnly := &mcp.ToolAnnotations{ReadOnlyHint: true, OpenWorldHint: &no}
	mcp.AddTool(s, &mcp.Tool{Name: "create_ticket", Description: "Open a ticket.", InputSchema: schema[newTicket](), Annotations: add},
		tool(d, d.create))
	mcp.AddTool(s, &mcp.Tool{Name: "get_ticket", Description: "Show one ticket by its number.", Annotations: readOnly},
		tool(d, func(k key) (ticket, error) {
			t, err := d.find(k.ID)
			if err != nil {
				return ticket{}, err
			}
			return *t, nil
		}))
	mcp.AddTool(s, &mcp.Tool{Name: "list_tickets", Description: "List tickets, by status, priority or label.",
		InputSchema: schema[filter](), Annotations: readOnly}, tool(d, d.list))
	mcp.AddTool(s, &mcp.Tool{Name: "update_ticket", Description: "Change members of a ticket, such as its priority or assignee.",
		InputSchema: schema[update](), Annotations: change}, tool(d, d.update))
	mcp.AddTool(s, &mcp.Tool{Name: "close_ticket", Description: "Close a ticket, with a comment if wanted.", Annotations: change},
		tool(d, d.close))
	return s.Run(context.Background(), &mcp.StdioTransport{})
}

// schema returns the schema of T with the values of enums, also in changes.
func schema[T any]() *jsonschema.Schema {
	s, err := jsonschema.For[T](nil)
	if err != nil {
		panic(err)
	}
	restrict(s)
	return s
}

func restrict(s *jsonschema.Schema) {
	for name, p := range s.Properties {
		p.Enum = enums[name]
		if name == "due" {
			p.Format = "date"
		}
		restrict(p)
	}
}

// tool wraps a tool, of which one call runs at a time.
func tool[In, Out any](d *desk, work func(In) (Out, error)) mcp.ToolHandlerFor[In, Out] {
	return func(_ context.Context, _ *mcp.CallToolRequest, in In) (*mcp.CallToolResult, Out, error) {
		d.mu.Lock()
		defer d.mu.Unlock()
		out, err := work(in)
		return nil, out, err
	}
}

func (d *desk) create(n newTicket) (ticket, error) {
	if strings.TrimSpace(n.Title) == "" {
		return ticket{}, fmt.Errorf("title is empty: describe the problem in a few words")
	}
	n.Priority = cmp.Or(n.Priority, "normal")
	t := ticket{ID: len(d.tickets) + 1, Status: "open", newTicket: n}
	d.tickets = append(d.tickets, t)
	return t, nil
}

func (d *desk) find(id int) (*ticket, error) {
	if id < 1 || id > len(d.tickets) {
		return nil, fmt.Errorf("there is no ticket %d; there are %d", id, len(d.tickets))
	}
	return &d.tickets[id-1], nil
}

func (d *desk) list(f filter) (tickets, error) {
	found, status := []ticket{}, cmp.Or(f.Status, "open")
	for _, t := range d.tickets {
		switch {
		case status != "all" && t.Status != status, f.Priority != "" && t.Priority != f.Priority:
		case f.Label != "" && !slices.Contains(t.Labels, f.Label), f.Limit > 0 && len(found) == f.Limit:
		default:
			found = append(found, t)
		}
	}
	return tickets{found}, nil
}

func (d *desk) update(u update) (ticket, error) {
	t, err := d.find(u.ID)
	if err != nil {
		return ticket{}, err
	}
	c := u.Changes
	t.Title, t.Priority = cmp.Or(c.Title, t.Title), cmp.Or(c.Priority, t.Priority)
	t.Assignee, t.Due = cmp.Or(c.Assignee, t.Assignee), cmp.Or(c.Due, t.Due)
	return *t, nil
}

func (d *desk) close(c closing) (ticket, error) {
	t, err := d.find(c.ID)
	if err != nil {
		return ticket{}, err
	}
	t.Status, t.Comment = "closed", c.Comment
	return *t, nil
}
