package builtin

import (
	"context"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver/wire"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
)

// AskApproval returns a function that asks the person to approve an action; nil if the client
// cannot be asked during a call.
func (c Call) AskApproval() func(context.Context, tool.Approval) (tool.Reply, error) {
	if c.Ask == nil {
		return nil
	}
	return func(ctx context.Context, a tool.Approval) (tool.Reply, error) {
		text, err := c.Gate().RevealToPerson(ctx, WithAsker(a.Text, a.Asker))
		if err != nil {
			return tool.Reply{}, err
		}
		replies, err := c.Ask(ctx, []wire.Question{{ID: a.ID, Text: text, Schema: a.Schema}})
		if err != nil {
			return tool.Reply{}, fault.Wrap(fault.Unavailable, err, "the client did not show it")
		}
		return tool.Reply{Action: tool.Action(replies[a.ID].Action), Content: replies[a.ID].Content}, nil
	}
}

// WithAsker returns the text of an approval with the description of who asks.
func WithAsker(text, asker string) string {
	if asker == "" {
		return text
	}
	return text + "\n\n" + asker
}

// Printable escapes control characters, with which one text could look like several.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r != '\n' && (r < ' ' || r >= 0x7f && r < 0xa0 || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069) {
			return '\uFFFD'
		}
		return r
	}, s)
}
