package approval

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home/approval/grant"
	"github.com/sandpiper-mcp/sandpiper/internal/home/approval/preview"
	"github.com/sandpiper-mcp/sandpiper/internal/store"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
)

// Origin describes the code and the client that ask.
type Origin struct {
	tool.Origin
	CodeLeft int  `json:"code_left,omitempty"` // bytes at the end of the code that are not stored
	Lasting  bool `json:"lasting,omitempty"`   // the person may allow further calls
}

// maxCode bounds the stored code, in bytes.
const maxCode = 256 << 10

// fit truncates code that is too long.
func (o Origin) fit() Origin {
	if n := len(o.Code); n > maxCode {
		o.Code = strings.ToValidUTF8(o.Code[:maxCode], "")
		o.CodeLeft = n - len(o.Code)
	}
	return o
}

// encrypt returns what is stored; nil if there is nothing.
func (o Origin) encrypt(s *Store, id string) []byte {
	if o == (Origin{}) {
		return nil
	}
	text, err := json.Marshal(o)
	if err != nil { // strings and numbers only
		panic(err)
	}
	return s.cipher.Seal(ofOrigin, text, id)
}

func decryptOrigin(s *Store, id string, encrypted []byte) (o Origin, err error) {
	text, err := s.cipher.Open(ofOrigin, encrypted, id)
	if err == nil {
		err = json.Unmarshal(text, &o)
	}
	return o, err
}

// Scopes returns the scopes that an approval may have, from the smallest.
func (r Request) Scopes() []grant.Scope {
	all := []grant.Scope{grant.Once}
	if r.Kind != Call || !r.Origin.Lasting {
		return all
	}
	if r.Execution != "" {
		all = append(all, grant.Execution)
	}
	if r.Origin.Interpreter != "" {
		all = append(all, grant.Session)
	}
	return append(all, grant.Tool)
}

// call returns the call of a request as grants see it.
func (r Request) call() grant.Call {
	return grant.Call{Ref: r.Ref, Schema: r.Schema, Execution: r.Execution, Interpreter: r.Origin.Interpreter}
}

// allowMore stores the approval r with a scope, its grant, and the approvals of the open requests that this
// covers: a person who allowed further calls is not asked about those that wait.
func allowMore(ctx context.Context, s *Store, tx *store.Tx, r *Request, scope grant.Scope) error {
	if !slices.Contains(r.Scopes(), scope) {
		return fault.New(fault.Invalid, "approval %s cannot be given for the %s", r.ID, scope).WithHint("use %s", scopeNames(r.Scopes()))
	}
	g := grant.Grant{
		ID:      r.ID,
		Scope:   scope,
		Ref:     r.Ref,
		Schema:  r.Schema,
		Created: r.Answered,
		By:      r.By,
	}
	switch scope {
	case grant.Execution:
		g.Subject, g.Expires = r.Execution, r.Answered.Add(s.cfg.Timeout)
	case grant.Session:
		g.Subject, g.Session, g.Expires = r.Origin.Interpreter, r.Session, r.Answered.Add(s.cfg.Timeout)
	}
	if err := grant.Put(ctx, tx, g); err != nil {
		return err
	}
	r.Scope = scope
	if err := s.update(ctx, tx, *r); err != nil {
		return err
	}
	open, err := requestsIn(ctx, s, tx, "state = 'open' AND expires > ?", s.cfg.Now().UnixMilli())
	for _, other := range open {
		if err == nil && other.ID != r.ID && slices.Contains(other.Scopes(), scope) && g.Covers(other.call()) {
			other.State, other.Answered, other.By = Approved, r.Answered, r.By
			err = s.update(ctx, tx, other)
		}
	}
	return err
}

// requestsIn returns the requests that match a condition and are not damaged.
func requestsIn(ctx context.Context, s *Store, tx *store.Tx, where string, args ...any) (found []Request, err error) {
	rows, err := tx.QueryContext(ctx, "SELECT "+stored+" FROM approvals WHERE "+where, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		r, err := s.scan(rows)
		switch {
		case err == nil:
			found = append(found, r)
		case !r.Damaged:
			return nil, err
		}
	}
	return found, rows.Err()
}

func scopeNames(all []grant.Scope) string {
	names := []string{"once"}
	for _, s := range all[1:] {
		names = append(names, string(s))
	}
	return strings.Join(names, ", ")
}

// Asker describes the origin of a request, for the person: the client, the execution and the code. The result is "" if
// nothing is known.
func (r Request) Asker() string {
	var by []string
	if r.Origin.Client != "" {
		by = append(by, "the client "+name(r.Origin.Client))
	}
	if r.Session != "" {
		by = append(by, "session "+name(r.Session))
	}
	if r.Execution != "" {
		by = append(by, Escape(r.Execution))
	}
	if r.Origin.Code == "" {
		if r.Origin.Client == "" {
			return ""
		}
		return "It was asked for by " + strings.Join(by, ", ") + "."
	}
	code, left := r.Code()
	who := ""
	if len(by) > 0 {
		who = " (" + strings.Join(by, ", ") + ")"
	}
	text := fmt.Sprintf("The code that asks%s:\n\n%s", who, code)
	if left {
		text += fmt.Sprintf("\n\nThis is NOT ALL of the code: `sandpiper approvals show %s` prints the rest.", r.ID)
	}
	return text
}

// Code returns the lines of the code around the call, with their numbers. left reports whether others
// are left out.
func (r Request) Code() (text string, left bool) {
	text, left = preview.Code(r.Origin.Code, r.Tool)
	return text, left || r.Origin.CodeLeft > 0
}
