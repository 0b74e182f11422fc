package passthrough

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver/builtin"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver/wire"
)

// client forwards messages of a server to the client during a call.
type client struct {
	builtin.Visit
	log *slog.Logger
}

// errUnanswered is the error about a client that has returned a question without the answer of a person.
var errUnanswered = errors.New("no person has answered")

// progress returns a function that forwards the progress of a tool; nil if the
// client did not ask for progress.
func (s client) progress(ctx context.Context) func(done, total float64, message string) {
	if s.Progress == nil {
		return nil
	}
	return func(done, total float64, message string) {
		redacted, err := s.Gate.Redact(ctx, message)
		if err == nil {
			err = s.Progress(ctx, done, total, redacted)
		}
		if err != nil {
			s.log.Debug("progress of a tool was not passed on", "error", err)
		}
	}
}

// question returns a function that forwards a server's question during a call; nil
// if the client cannot be asked during a call.
func (s client) question(name string) func(context.Context, Question) (Reply, error) {
	if s.Ask == nil {
		return nil
	}
	return func(ctx context.Context, q Question) (Reply, error) {
		text, err := s.Gate.Redact(ctx, "The tool "+builtin.Printable(name)+" asks: "+builtin.Printable(q.Text))
		if err != nil {
			return Reply{}, err
		}
		schema, err := s.Gate.Tokenize(ctx, "", string(q.Schema))
		if err != nil {
			return Reply{}, err
		}
		replies, err := s.Ask(ctx, []wire.Question{{ID: "q", Text: text, Schema: json.RawMessage(schema)}})
		if err != nil {
			s.log.Debug("the client could not be asked", "error", err)
			return Reply{}, fault.Wrap(fault.Unavailable, err, "the client did not show it")
		}
		return Reply{Action: Action(replies["q"].Action), Content: replies["q"].Content}, nil
	}
}

// approval returns a function that asks the person to approve a call; nil if the
// client cannot be asked during a call.
func (s client) approval() func(context.Context, Approval) (Reply, error) {
	if s.Ask == nil {
		return nil
	}
	return func(ctx context.Context, a Approval) (Reply, error) {
		text, err := s.Gate.RevealToPerson(ctx, builtin.WithAsker(a.Text, a.Asker))
		if err != nil {
			return Reply{}, err
		}
		replies, err := s.Ask(ctx, []wire.Question{{ID: a.ID, Text: text, Schema: a.Schema}})
		if err == nil && replies[a.ID].Action == wire.Cancel {
			err = errUnanswered
		}
		if err != nil {
			s.log.Debug("the client could not be asked", "error", err)
			return Reply{}, fault.Wrap(fault.Unavailable, err, "the client did not show it")
		}
		return Reply{Action: Action(replies[a.ID].Action), Content: replies[a.ID].Content}, nil
	}
}
