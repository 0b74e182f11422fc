package upstream_test

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/longtest"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream/upstreamtest"
)

// askingServer returns a server whose tool ask waits for the person.
func askingServer(t *testing.T, name string) upstream.Server {
	file := filepath.Join(t.TempDir(), "script")
	upstreamtest.Write(t, file, upstreamtest.Script{
		Questions: []json.RawMessage{json.RawMessage(`{"message":"sure?","requestedSchema":{"type":"object","properties":{"ok":{"type":"boolean"}}}}`)},
		Answers:   map[string]json.RawMessage{"call now": json.RawMessage(`{"content":[{"type":"text","text":"now"}]}`)},
	})
	return upstream.Server{Name: name, Kind: upstream.Program{Command: upstreamtest.Command(t), Env: upstreamtest.Env(file)},
		Identity: name}
}

// inFlight calls the tool ask of a server, and returns when the person is asked.
func inFlight(t *testing.T, s *upstream.Set, server string) (answer func(), result <-chan error) {
	t.Helper()
	asked, go_, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		_, err := s.Call(context.Background(), tool.Call{Ref: tool.Ref{Server: server, Tool: "ask"},
			Ask: func(ctx context.Context, _ tool.Question) (tool.Reply, error) {
				close(asked)
				select {
				case <-go_:
				case <-ctx.Done():
				}
				return tool.Reply{Action: tool.Accept, Content: json.RawMessage(`{"ok":true}`)}, nil
			}})
		done <- err
	}()
	select {
	case <-asked:
	case err := <-done:
		t.Fatal("the call ended: ", err)
	}
	return sync.OnceFunc(func() { close(go_) }), done
}

func TestCallInFlightOnAChangedServerEndsOnItsOldConnection(t *testing.T) {
	t.Parallel()
	old, other := askingServer(t, "changed"), brokenServer(t, "good")
	s := open(t, upstream.Config{Servers: []upstream.Server{old, other}})
	wantEcho(t, s, "good")
	answer, result := inFlight(t, s, "changed")
	before, kept := state(s, "changed").PID, state(s, "good").PID
	changed := old
	program := old.Kind.(upstream.Program)
	program.Args = []string{"-other"}
	changed.Kind = program
	if err := s.Update([]upstream.Server{changed, other}); err != nil {
		t.Fatal(err)
	}
	if r, err := call(t.Context(), s, "changed", "now", ""); err != nil || r.Text() != "now" {
		t.Errorf("a new call: %v %v", r, err)
	}
	if pid := state(s, "changed").PID; pid == before || pid == 0 {
		t.Errorf("a new call used the old program %d", pid)
	}
	if pid := state(s, "good").PID; pid != kept {
		t.Errorf("the unchanged server was restarted")
	}
	answer()
	if err := <-result; err != nil {
		t.Errorf("the call in flight: %v", err)
	}
	wantGone(t, before)
}

func TestRemovedServerIsStoppedAfterItsCall(t *testing.T) {
	t.Parallel()
	s := open(t, upstream.Config{Servers: []upstream.Server{askingServer(t, "a"), askingServer(t, "b")}})
	answer, result := inFlight(t, s, "a")
	pid := state(s, "a").PID
	if err := s.Update([]upstream.Server{askingServer(t, "b")}); err != nil {
		t.Fatal(err)
	}
	_, err := call(t.Context(), s, "a", "now", "")
	wantError(t, err, fault.NotFound, `"a"`, "b")
	answer()
	if err := <-result; err != nil {
		t.Error(err)
	}
	wantGone(t, pid)
}

func TestCallThatDoesNotEndIsCancelledAfterTheTimeout(t *testing.T) {
	t.Parallel()
	server := askingServer(t, "a")
	server.Timeout = 50 * time.Millisecond
	s := open(t, upstream.Config{Servers: []upstream.Server{server}})
	_, result := inFlight(t, s, "a") // waiting for a person is not limited by Timeout
	if err := s.Update(nil); err != nil {
		t.Fatal(err)
	}
	wantError(t, <-result, fault.Unavailable, "was removed or changed in the configuration")
}

func TestCallThatWaitsForAStartGoesToTheNewServer(t *testing.T) {
	longtest.SkipSlow(t)
	t.Parallel()
	hangs, works := brokenServer(t, "hangs"), askingServer(t, "hangs")
	hangs.StartTimeout = time.Hour
	s := open(t, upstream.Config{Servers: []upstream.Server{hangs}})
	waiting, result := make(chan struct{}), make(chan error, 1)
	go func() {
		_, err := s.Call(context.Background(), tool.Call{Ref: tool.Ref{Server: "hangs", Tool: "now"}, Starting: func() func() {
			select {
			case <-waiting:
			default:
				close(waiting)
			}
			return func() {}
		}})
		result <- err
	}()
	<-waiting
	if err := s.Update([]upstream.Server{works}); err != nil {
		t.Fatal(err)
	}
	if err := <-result; err != nil {
		t.Error(err)
	}
}

func TestCallThatWaitsForTheStartOfARemovedServerFails(t *testing.T) {
	t.Parallel()
	hangs := brokenServer(t, "hangs")
	hangs.StartTimeout = time.Hour
	s := open(t, upstream.Config{Servers: []upstream.Server{hangs}})
	result := make(chan error, 1)
	go func() {
		_, err := call(context.Background(), s, "hangs", "now", "")
		result <- err
	}()
	until(t, "the start", func() bool { return state(s, "hangs").State == upstream.Starting })
	if err := s.Update(nil); err != nil {
		t.Fatal(err)
	}
	wantError(t, <-result, fault.NotFound, `"hangs"`)
}

func TestManyUpdatesDuringCalls(t *testing.T) {
	t.Parallel()
	variants := [][]upstream.Server{{askingServer(t, "a")}, {askingServer(t, "a"), askingServer(t, "b")}, {askingServer(t, "b")}, nil}
	s := open(t, upstream.Config{Servers: variants[0]})
	stop := make(chan struct{})
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				for _, name := range []string{"a", "b"} {
					if r, err := call(t.Context(), s, name, "now", ""); err == nil && r.Text() != "now" ||
						err != nil && fault.KindOf(err) != fault.NotFound {
						t.Errorf("%s: %v %v", name, r, err)
						return
					}
				}
			}
		})
	}
	for i := range 60 {
		if err := s.Update(variants[i%len(variants)]); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Update(variants[1]); err != nil {
		t.Fatal(err)
	}
	close(stop)
	all.Wait()
	for _, name := range []string{"a", "b"} {
		if _, err := call(t.Context(), s, name, "now", ""); err != nil {
			t.Error(err)
		}
	}
}

func TestBadUpdateChangesNothing(t *testing.T) {
	t.Parallel()
	good := brokenServer(t, "good")
	s := open(t, upstream.Config{Servers: []upstream.Server{good}})
	wantEcho(t, s, "good")
	pid := state(s, "good").PID
	for _, bad := range [][]upstream.Server{{good, good}, {{Name: "x"}}, {{Name: "x", Kind: upstream.Remote{URL: "ftp://x"}}}} {
		if err := s.Update(bad); err == nil {
			t.Errorf("%v was accepted", bad)
		}
	}
	if wantEcho(t, s, "good"); state(s, "good").PID != pid {
		t.Error("the server was restarted")
	}
}

func TestCloseEndsRetiredServers(t *testing.T) {
	t.Parallel()
	s := open(t, upstream.Config{Servers: []upstream.Server{askingServer(t, "a")}})
	_, result := inFlight(t, s, "a")
	pid := state(s, "a").PID
	if err := s.Update(nil); err != nil {
		t.Fatal(err)
	}
	s.Close()
	if err := <-result; err == nil {
		t.Error("the call was answered")
	}
	wantGone(t, pid)
	if err := s.Update([]upstream.Server{askingServer(t, "a")}); err != nil {
		t.Error(err)
	}
	if _, err := call(t.Context(), s, "a", "now", ""); err == nil {
		t.Error("a closed set called a server")
	}
}

// wantGone waits for a program to end.
func wantGone(t *testing.T, pid int) {
	t.Helper()
	if pid == 0 {
		t.Fatal("the program was not running")
	}
	until(t, fmt.Sprint("the end of process ", pid), func() bool { return !alive(pid) })
}
