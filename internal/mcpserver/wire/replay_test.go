package wire

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// replayedEvents returns the stored events of a stream after an index.
func replayedEvents(t *testing.T, r *replays, connection, stream string, index int) (all []string, err error) {
	t.Helper()
	for data, e := range r.After(t.Context(), connection, stream, index) {
		if e != nil {
			return all, e
		}
		all = append(all, string(data))
	}
	return all, nil
}

func (r *replays) append(t *testing.T, connection, stream string, data ...string) {
	t.Helper()
	for _, d := range data {
		if err := r.Append(t.Context(), connection, stream, []byte(d)); err != nil {
			t.Fatal(err)
		}
	}
}

func (r *replays) open(t *testing.T, connection string, streams ...string) {
	t.Helper()
	for _, s := range append([]string{""}, streams...) {
		if err := r.Open(t.Context(), connection, s); err != nil {
			t.Fatal(err)
		}
	}
}

const (
	note     = `{"jsonrpc":"2.0","method":"m","params":{"result":1}}`
	answered = `{"jsonrpc":"2.0","id":1,"result":{}}`
)

func TestReplayReturnsEventsAfterIndex(t *testing.T) {
	r := newReplays()
	r.open(t, "c", "s")
	r.append(t, "c", "s", "", note, answered)
	r.append(t, "c", "", "other")
	got, err := replayedEvents(t, r, "c", "s", 0)
	if diff := cmp.Diff([]string{note, answered}, got); diff != "" || err != nil {
		t.Error(diff, err)
	}
	if got, err = replayedEvents(t, r, "c", "s", 2); len(got) != 0 || err != nil {
		t.Error(got, err)
	}
	for _, unknown := range [][2]string{{"c", "x"}, {"x", "s"}} {
		if _, err := replayedEvents(t, r, unknown[0], unknown[1], 0); !errors.Is(err, mcp.ErrEventsPurged) {
			t.Errorf("%v: %v", unknown, err)
		}
	}
}

func TestReplayIsBoundedInEntriesAndBytes(t *testing.T) {
	r := newReplays()
	r.perConnection, r.all = bounds{3, 1000}, bounds{5, 200}
	r.open(t, "c", "s")
	r.open(t, "d", "s")
	r.append(t, "c", "s", "0", "1", "2", "3")
	if _, err := replayedEvents(t, r, "c", "s", -1); !errors.Is(err, mcp.ErrEventsPurged) {
		t.Errorf("read of dropped events: %v", err)
	}
	if got, err := replayedEvents(t, r, "c", "s", 0); len(got) != 3 || err != nil {
		t.Error(got, err)
	}
	r.append(t, "d", "s", "0", "1", "2") // drops the oldest of c
	if got, err := replayedEvents(t, r, "c", "s", 1); len(got) != 2 || err != nil || r.events.Len() != 5 {
		t.Errorf("%v, %v, %d events", got, err, r.events.Len())
	}
	large := string(make([]byte, 300))
	r.append(t, "d", "s", large) // too large, but the newest
	if got, err := replayedEvents(t, r, "d", "s", 2); len(got) != 1 || err != nil || r.events.Len() != 1 || r.bytes != 300 {
		t.Errorf("%d, %v, %d events of %d bytes", len(got), err, r.events.Len(), r.bytes)
	}
	// An open stream continues its numbering.
	r.append(t, "c", "s", "4")
	if got, err := replayedEvents(t, r, "c", "s", 3); len(got) != 1 || err != nil {
		t.Error(got, err)
	}
}

func TestReplayRemovesAnsweredStreams(t *testing.T) {
	r := newReplays()
	r.perConnection.entries = 4
	r.open(t, "c", "slow")
	for i := range 100 {
		s := fmt.Sprint(i)
		if err := r.Open(t.Context(), "c", s); err != nil {
			t.Fatal(err)
		}
		r.append(t, "c", s, "", answered)
	}
	if n := len(r.connections["c"].streams); n != 4 { // the last two, the open one, and that of the connection
		t.Errorf("%d streams are left", n)
	}
	r.append(t, "c", "slow", answered)
	if got, err := replayedEvents(t, r, "c", "slow", -1); len(got) != 1 || err != nil {
		t.Error(got, err)
	}
	r.append(t, "c", "0", "late")
	if err := r.SessionClosed(t.Context(), "c"); err != nil {
		t.Fatal(err)
	}
	r.append(t, "c", "slow", "late")
	if err := r.Open(t.Context(), "c", "late"); err == nil {
		t.Error("a closed connection opened a stream")
	}
	if len(r.connections) != 0 || r.events.Len() != 0 || r.bytes != 0 {
		t.Errorf("%d connections, %d events, %d bytes are left", len(r.connections), r.events.Len(), r.bytes)
	}
}

func TestRequestsLeaveNoState(t *testing.T) {
	w := serveWeb(t, HTTPConfig{}, whoami)
	connection := w.connect()
	for range 1000 {
		res, err := w.send(t.Context(), http.MethodPost, `{"jsonrpc":"2.0","id":1,"method":"ping"}`, connection...)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, res.Body)
		res.Body.Close()
	}
	r := w.http.owned.replays
	r.mu.Lock()
	streams, events := len(r.connections[connection[1]].streams), r.events.Len()
	r.mu.Unlock()
	if streams > 300 || events > 300 {
		t.Errorf("%d streams and %d events after 1000 requests", streams, events)
	}
	res, err := w.send(t.Context(), http.MethodDelete, "", connection...)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.connections) != 0 || r.events.Len() != 0 || r.bytes != 0 || len(w.http.owned.byID) != 0 || len(w.http.owned.byCaller) != 0 {
		t.Error("a closed connection was not removed")
	}
}
