package execution

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"github.com/sandpiper-mcp/sandpiper/internal/execution/question"
	"github.com/sandpiper-mcp/sandpiper/internal/home/journal"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
)

// storedReply is a tool.Reply on record.
type storedReply struct {
	Action  tool.Action     `json:"action"`
	Content json.RawMessage `json:"content,omitempty"`
	By      string          `json:"by,omitempty"`
}

// setReply records the reply to q, whose entry has a number.
func setReply(ctx context.Context, r *journal.Record, number int, q question.Question, reply tool.Reply) error {
	text, err := json.Marshal(storedReply(reply))
	if err != nil {
		return err
	}
	return journal.SetReply(ctx, r, number, asked(q), text)
}

// takeReply returns the reply to q that an earlier run recorded and the code has not got.
func takeReply(ctx context.Context, r *journal.Record, q question.Question) (reply tool.Reply, ok bool, err error) {
	text, ok := journal.TakeReply(ctx, r, asked(q))
	if !ok {
		return reply, false, nil
	}
	var was storedReply
	err = json.Unmarshal(text, &was)
	return tool.Reply(was), err == nil, err
}

// supersedeReply discards a reply to q on record, since q was answered in another way.
func supersedeReply(ctx context.Context, h *host, q question.Question, form question.Form) error {
	err := promoteQuestion(ctx, h, &q, form)
	if err == nil {
		_, _, err = takeReply(ctx, h.run.record, q)
	}
	return err
}

// asked identifies what q asks, also in another run. The same text may be asked about another call. An
// approval has an id of its own.
func asked(q question.Question) string {
	text, err := json.Marshal([]any{q.Approval, q.Call, q.Of, q.From, q.Text, q.Schema})
	if q.Approval != "" {
		text, err = []byte(q.Approval), nil
	}
	if err != nil { // the schema is JSON
		panic(err)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}
