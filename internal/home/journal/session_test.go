package journal_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home/journal"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
)

func encode(t *testing.T, r *journal.Record) []byte {
	t.Helper()
	content, ok, err := journal.Encode(r)
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	return content
}

func replaySession(t *testing.T, d daemon, content []byte) *journal.Record {
	t.Helper()
	r, err := d.ReplaySession("exec_2", content)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestSessionRecordAnswersItsCallsOnly(t *testing.T) {
	t.Parallel()
	d := start(t, t.TempDir())
	r := d.NewSessionRecord("exec_1")
	read(t, r, ask("find", `{"q": "<a>"}`), `"one <b>"`)
	write(t, r, ask("add", `{"n":1}`), `1`)
	write(t, r, ask("add", `{"n":1}`), `2`)
	open := begin(t, r, ask("add", `{"n":2}`)) // the task ends during this call
	content := encode(t, r)
	if err := r.End(t.Context(), journal.End{}); err != nil {
		t.Fatal(err)
	}
	if left, err := d.ListUnfinished(t.Context()); err != nil || len(left) != 0 {
		t.Errorf("the record is in the tables: %+v, %v", left, err)
	}
	if calls, err := d.List(t.Context(), 10); err != nil || len(calls) != 3 || calls[0].Outcome != journal.Unknown ||
		calls[2].Outcome != journal.Answered {
		t.Errorf("the entries are %+v, %v; call %d is open", calls, err, open)
	}

	again := replaySession(t, d, content)
	if a := next(t, again, ask("add", `{"n":1}`)); string(a.Answer.Value) != "1" {
		t.Errorf("the first call got %s", a.Answer.Value)
	}
	if a := next(t, again, ask("find", `{"q": "<a>"}`)); string(a.Answer.Value) != `"one <b>"` {
		t.Errorf("the read got %s", a.Answer.Value)
	}
	if a := next(t, again, ask("add", `{"n":2}`)); a.Answer.Err() == nil || !strings.Contains(a.Answer.Err().Error(),
		"crm.add had not been answered") {
		t.Errorf("the unanswered call got %+v", a.Answer)
	}
	if left := journal.Left(again); len(left) != 1 || left[0] != "crm.add" {
		t.Errorf("left is %q", left)
	}
	_, err := again.Next(t.Context(), ask("add", `{"n":3}`))
	if _, ok := errors.AsType[*journal.Divergence](err); !ok ||
		fault.Message(err) != `the code calls crm.add with another value of "n" than on record` {
		t.Errorf("another call: %v", err)
	}
	if _, err := again.Next(t.Context(), ask("add", `{"n":1}`)); err == nil {
		t.Error("a call after the divergence was answered")
	}
}

func TestSessionRecordWithoutCallsAnswersNone(t *testing.T) {
	t.Parallel()
	d := start(t, t.TempDir())
	content := encode(t, d.NewSessionRecord("exec_1"))
	if content != nil {
		t.Fatalf("content is %q", content)
	}
	_, err := replaySession(t, d, content).Next(t.Context(), journal.HostCall{Method: "read_resource", Ref: tool.Ref{Server: "crm"}})
	if fault.Message(err) != "the code calls read_resource of crm, which is not on record" {
		t.Error(err)
	}
}

func TestSessionRecordIsBounded(t *testing.T) {
	t.Parallel()
	d := start(t, t.TempDir())
	r := d.NewSessionRecord("exec_1")
	read(t, r, ask("find", `{}`), `"`+strings.Repeat("x", journal.MaxSessionRecord-1000)+`"`)
	if content := encode(t, r); len(content) < journal.MaxSessionRecord-1000 {
		t.Errorf("content has %d bytes", len(content))
	}
	read(t, r, ask("find", `{}`), `"`+strings.Repeat("x", 1000)+`"`)
	write(t, r, ask("add", `{}`), `1`) // calls are made as before
	if content, ok, err := journal.Encode(r); ok || content != nil || err != nil {
		t.Errorf("%d bytes, %t, %v", len(content), ok, err)
	}
}
