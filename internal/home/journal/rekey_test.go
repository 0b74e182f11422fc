package journal_test

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/home/journal"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

func TestRekeyOfBackgroundExecution(t *testing.T) {
	t.Parallel()
	ctx, dir := t.Context(), t.TempDir()
	old := start(t, dir)
	r := old.NewRecord("exec_1", func() ([]byte, error) { return []byte("request"), nil }, false)
	read(t, r, ask("find", `{}`), `7`)
	next(t, r, ask("wait", `{}`))
	if err := r.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	b := old.Runs()
	if err := b.Add(ctx, journal.Run{Execution: "exec_1", State: journal.Running, OnRestart: journal.ReportOnRestart,
		Request: []byte("background")}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.SetLive(ctx, "exec_1", []byte("live")); err != nil {
		t.Fatal(err)
	}
	if err := old.End(ctx, "exec_1", journal.End{State: journal.Running, Result: []byte("result")}); err != nil {
		t.Fatal(err)
	}
	for _, v := range []string{`1`, `2`} {
		if err := b.Signal(ctx, "exec_1", "go", json.RawMessage(v)); err != nil {
			t.Fatal(err)
		}
	}
	owner, err := tenant.Parse("other")
	if err != nil {
		t.Fatal(err)
	}
	fresh := startWith(t, dir, bytes.Repeat([]byte{8}, 32), owner, time.Minute)
	if _, err := fresh.Runs().Find(ctx, "exec_1"); err == nil {
		t.Error("it can be read with another key")
	}
	if damaged, err := old.Rekey(ctx, fresh.Log); damaged != 0 || err != nil {
		t.Fatal(damaged, err)
	}
	e, err := fresh.Runs().Find(ctx, "exec_1")
	if err != nil || string(e.Request) != "request" || string(e.Live) != "live" || string(e.Result) != "result" ||
		e.OnRestart != journal.ReportOnRestart {
		t.Fatalf("%+v, %v", e, err)
	}
	if e, err := fresh.Runs().Claim(ctx); err != nil || e == nil || e.State != journal.Running { // no process runs it
		t.Fatalf("%+v, %v", e, err)
	}
	again := resume(t, fresh, "exec_1")
	if a := next(t, again, ask("find", `{}`)); a.Answer == nil || string(a.Answer.Value) != "7" {
		t.Errorf("the record is %+v", a)
	}
	number := next(t, again, ask("wait", `{}`)).Number
	taken, err := journal.TakeSignal(ctx, again, number, "go", func(v json.RawMessage) journal.Answer { return journal.Answer{Value: v} })
	if err != nil || taken == nil || string(taken.Value) != "1" {
		t.Errorf("the signal is %+v, %v", taken, err)
	}
}
