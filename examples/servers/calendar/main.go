// Command calendar is a small MCP server that stores events in memory and computes with
// dates. It is an example, and a server for the project's tests.
package main

import (
	"cmp"
	"context"
	"fmt"
	"log"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

var kinds = []any{"meeting", "call", "deadline", "holiday"}

type newEvent struct {
	Title     string   `json:"title"`
	Date      string   `json:"date" jsonschema:"such as 2027-03-31"`
	Time      string   `json:"time,omitempty" jsonschema:"start, such as 09:30; the whole day if left out"`
	Minutes   int      `json:"duration_minutes,omitempty" jsonschema:"60 if left out"`
	Kind      string   `json:"kind,omitempty" jsonschema:"meeting if left out"`
	Attendees []string `json:"attendees,omitempty" jsonschema:"names"`
}

type event struct {
	ID int `json:"id"`
	newEvent
}

type period struct {
	From string `json:"from" jsonschema:"first day, such as 2027-03-01"`
	To   string `json:"to,omitempty" jsonschema:"last day; the first day if left out"`
	Kind string `json:"kind,omitempty" jsonschema:"only events of this kind"`
}

type events struct {
	Events []event `json:"events"`
}

type span struct {
	Start string `json:"start" jsonschema:"a date, such as 2027-03-01"`
	End   string `json:"end" jsonschema:"a date, such as 2027-03-31"`
}

type days struct {
	Days int `json:"days"`
}

type day struct {
	Date string `json:"date" jsonschema:"such as 2027-03-31"`
}

type weekday struct {
	Weekday string `json:"weekday" jsonschema:"Monday to Sunday"`
}

func main() {
	if err := new(calendar).serve(); err != nil {
		log.Fatal(err)
	}
}

// calendar is safe for concurrent use.
type calendar struct {
	mu     sync.Mutex
	events []event
}

func (c *calendar) serve() error {
	s := mcp.NewServer(&mcp.Implementation{Name: "calendar", Version: "1.0.0"}, nil)
	no := false
	readOnly := &mcp.ToolAnnotations{ReadOnlyHint: true, OpenWorldHint: &no}
	mcp.AddTool(s, &mcp.Tool{Name: "add_event", Description: "Add an event to the calendar.", InputSchema: schema[newEvent]("date"),
		Annotations: &mcp.ToolAnnotations{DestructiveHint: &no, OpenWorldHint: &no}}, tool(c.add))
	mcp.AddTool(s, &mcp.Tool{Name: "list_events", Description: "List the events of a day or a period, by date.",
		InputSchema: schema[period]("from", "to"), Annotations: readOnly}, tool(c.list))
	mcp.AddTool(s, &mcp.Tool{Name: "days_between", Description: "Count the days from one date to another.",
		InputSchema: schema[span]("start", "end"), Annotations: readOnly}, tool(between))
	mcp.AddTool(s, &mcp.Tool{Name: "weekday", Description: "Tell the day of the week of a date.", InputSchema: schema[day]("date"),
		Annotations: readOnly}, tool(weekdayOf))
	return s.Run(context.Background(), &mcp.StdioTransport{})
}

// schema returns the schema of T, in which some members are dates and kind is one of kinds.
func schema[T any](dates ...string) *jsonschema.Schema {
	s, err := jsonschema.For[T](nil)
	if err != nil {
		panic(err)
	}
	for _, name := range dates {
		s.Properties[name].Format = "date"
	}
	if kind := s.Properties["kind"]; kind != nil {
		kind.Enum = kinds
	}
	return s
}

func tool[In, Out any](work func(In) (Out, error)) mcp.ToolHandlerFor[In, Out] {
	return func(_ context.Context, _ *mcp.CallToolRequest, in In) (*mcp.CallToolResult, Out, error) {
		out, err := work(in)
		return nil, out, err
	}
}

func (c *calendar) add(n newEvent) (event, error) {
	if _, err := parse(n.Date); err != nil {
		return event{}, err
	}
	if _, err := time.Parse("15:04", cmp.Or(n.Time, "00:00")); err != nil {
		return event{}, fmt.Errorf("time is %q: use hours and minutes, such as 09:30", n.Time)
	}
	if strings.TrimSpace(n.Title) == "" || n.Minutes < 0 {
		return event{}, fmt.Errorf("title is %q and duration_minutes is %d: use a text and a positive number", n.Title, n.Minutes)
	}
	n.Kind, n.Minutes = cmp.Or(n.Kind, "meeting"), cmp.Or(n.Minutes, 60)
	c.mu.Lock()
	defer c.mu.Unlock()
	e := event{len(c.events) + 1, n}
	c.events = append(c.events, e)
	return e, nil
}

func (c *calendar) list(p period) (events, error) {
	to := cmp.Or(p.To, p.From)
	for _, date := range []string{p.From, to} {
		if _, err := parse(date); err != nil {
			return events{}, err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	found := []event{}
	for _, e := range c.events {
		if e.Date >= p.From && e.Date <= to && (p.Kind == "" || p.Kind == e.Kind) {
			found = append(found, e)
		}
	}
	slices.SortStableFunc(found, func(a, b event) int { return cmp.Or(cmp.Compare(a.Date, b.Date), cmp.Compare(a.Time, b.Time)) })
	return events{found}, nil
}

func between(s span) (days, error) {
	start, err := parse(s.Start)
	if err != nil {
		return days{}, err
	}
	end, err := parse(s.End)
	return days{int(end.Sub(start).Hours() / 24)}, err
}

func weekdayOf(d day) (weekday, error) {
	t, err := parse(d.Date)
	return weekday{t.Weekday().String()}, err
}

func parse(date string) (time.Time, error) {
	t, err := time.Parse(time.DateOnly, date)
	if err != nil {
		return t, fmt.Errorf("%q is not a date: use year, month and day, such as 2027-03-31", date)
	}
	return t, nil
}
