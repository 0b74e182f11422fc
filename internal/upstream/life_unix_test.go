//go:build unix

package upstream_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/logtest"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream"
)

func TestServerStartsOnFirstUseOnce(t *testing.T) {
	asked := 0
	server := brokenServer(t, "good")
	server.Kind.(upstream.Program).Env["TOKEN"] = "reference"
	s := open(t, upstream.Config{Servers: []upstream.Server{server}, Resolve: func(_ context.Context, value string) (string, error) {
		if value == "reference" {
			asked++
		}
		return value, nil
	}})
	if st := state(s, "good"); st.State != upstream.Stopped || asked != 0 {
		t.Errorf("%v before the first use", st)
	}
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() { wantEcho(t, s, "good") })
	}
	all.Wait()
	if st := state(s, "good"); st.State != upstream.Ready || asked != 1 {
		t.Errorf("%v after %d starts", st, asked)
	}
}

func TestIdleServerIsStoppedAndRestarted(t *testing.T) {
	server := brokenServer(t, "good")
	server.Idle = 30 * time.Millisecond
	s := open(t, upstream.Config{Servers: []upstream.Server{server}})
	wantEcho(t, s, "good")
	pid := state(s, "good").PID
	until(t, "the server to stop", func() bool { return state(s, "good").State == upstream.Stopped })
	until(t, "its program to end", func() bool { return pid == 0 || syscall.Kill(pid, 0) != nil })
	wantEcho(t, s, "good")
}

func TestRetryBackoffGrows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := upstream.New(upstream.Config{Servers: []upstream.Server{{Name: "missing",
			Kind: upstream.Program{Command: "no-such-program"}}}})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		tries, last := 0, time.Time{}
		for begun := time.Now(); time.Since(begun) < 30*time.Minute; time.Sleep(100 * time.Millisecond) {
			_, err := call(t.Context(), s, "missing", "echo", "x")
			wantError(t, err, fault.Unavailable, `program "no-such-program" not found; the next attempt is in `)
			if since := state(s, "missing").Since; !since.Equal(last) {
				tries, last = tries+1, since
			}
		}
		if wait := time.Until(state(s, "missing").Retry); tries != 14 || wait > 5*time.Minute {
			t.Errorf("%d attempts in half an hour, the next in %s", tries, wait)
		}
	})
}

func TestNextCallRestartsCrashedServer(t *testing.T) {
	s := open(t, upstream.Config{Servers: []upstream.Server{brokenServer(t, "good")}})
	for range 3 {
		_, err := call(t.Context(), s, "good", "crash", "")
		wantError(t, err, fault.Unavailable, "exit status 4")
		wantEcho(t, s, "good")
	}
	pid := state(s, "good").PID
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	until(t, "the death to be noticed", func() bool { return state(s, "good").State == upstream.Failed })
	if st := state(s, "good"); !strings.Contains(st.Reason, `server "good" exited (signal: killed)`) || !st.Retry.IsZero() {
		t.Errorf("%+v", st)
	}
	wantEcho(t, s, "good")
	if st := state(s, "good"); st.Reason != "" || st.PID == pid {
		t.Errorf("%+v", st)
	}
}

func TestConcurrentCallsAreLimited(t *testing.T) {
	server := brokenServer(t, "good")
	server.Concurrency = 2
	s := open(t, upstream.Config{Servers: []upstream.Server{server}})
	ctx, cancel := context.WithCancel(t.Context())
	var hanging sync.WaitGroup
	for range 2 {
		hanging.Go(func() {
			if _, err := call(ctx, s, "good", "hang", ""); err == nil {
				t.Error("the call did not block")
			}
		})
	}
	until(t, "the server to be ready", func() bool { return state(s, "good").State == upstream.Ready })
	short, over := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer over()
	for range 2 { // one of them may start before the blocked calls
		if _, err := call(short, s, "good", "hang", ""); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	}
	cancel()
	hanging.Wait()
	wantEcho(t, s, "good")
}

func TestCloseEndsCallsStartsAndPrograms(t *testing.T) {
	t.Parallel()
	stays := brokenServer(t, "stays") // ignores the end of its input and SIGTERM
	s := open(t, upstream.Config{Servers: []upstream.Server{stays, brokenServer(t, "hangs"), brokenServer(t, "good")}})
	wantEcho(t, s, "stays")
	pid := state(s, "stays").PID
	var all sync.WaitGroup
	for server, name := range map[string]string{"hangs": "echo", "good": "hang", "stays": "hang"} {
		all.Go(func() {
			_, err := call(t.Context(), s, server, name, "")
			wantError(t, err, fault.Unavailable, "is stopping together with the daemon")
		})
	}
	until(t, "all to be under way", func() bool {
		return state(s, "hangs").State == upstream.Starting && state(s, "good").State == upstream.Ready
	})
	s.Close()
	s.Close()
	all.Wait()
	if syscall.Kill(pid, 0) == nil {
		t.Error("a program is still running after Close")
	}
	_, err := call(t.Context(), s, "good", "echo", "")
	wantError(t, err, fault.Unavailable, "is stopping together with the daemon")
}

func TestSecretsAreRedacted(t *testing.T) {
	var log logtest.Log
	server := brokenServer(t, "crashes") // writes a secret to stderr
	server.Kind.(upstream.Program).Env["PASS"] = "${VAULT}"
	failing := brokenServer(t, "good")
	failing.Name = "failing"
	failing.Kind.(upstream.Program).Env["KEY"] = "${MISSING}"
	s := open(t, upstream.Config{
		Servers: []upstream.Server{server, failing, {Name: "web",
			Kind: upstream.Remote{URL: "http://127.0.0.1:1", Headers: map[string]string{"Authorization": "Bearer sesame-open"}}}},
		Log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Resolve: func(_ context.Context, value string) (string, error) {
			switch value {
			case "${VAULT}":
				return "sesame-open", nil
			case "${MISSING}":
				return "", fault.New(fault.NotFound, "there is no variable MISSING").WithHint("set it")
			}
			return value, nil
		},
	})
	var errs []error
	for _, name := range []string{"crashes", "failing", "web"} {
		_, err := s.List(t.Context(), name)
		errs = append(errs, err)
	}
	wantError(t, errs[0], fault.Unavailable, "token [secret]")
	wantError(t, errs[1], fault.Invalid, `server "failing" cannot be started: its environment variable KEY has no value: there is no `+
		`variable MISSING`, "set it")
	wantError(t, errs[2], fault.Unavailable, "connection refused")
	if all := fmt.Sprintf("%v %+v %s", errs, s.States(), log.String()); strings.Contains(all, "sesame") {
		t.Error(all)
	}
}

func TestNewRejectsInvalidServers(t *testing.T) {
	for want, server := range map[string]upstream.Server{
		`server name "" is not allowed`:              {Kind: upstream.Program{Command: "x"}},
		`server "a" needs either a command or a URL`: {Name: "a"},
		`server "b" needs either`:                    {Name: "b", Kind: upstream.Program{}},
		`server "c" has URL "ftp://x"`:               {Name: "c", Kind: upstream.Remote{URL: "ftp://x"}},
		`server "d" has URL "…@x"`:                   {Name: "d", Kind: upstream.Remote{URL: "user:password@x"}},
		`server "e" has transport "pigeon"`:          {Name: "e", Kind: upstream.Remote{URL: "http://x", Transport: "pigeon"}},
		`server "f" needs either`:                    {Name: "f", Kind: upstream.Remote{}},
		`server "g" has working directory "here"`:    {Name: "g", Kind: upstream.Program{Command: "x", Dir: "here"}},
		`environment variable "A=B"`:                 {Name: "h", Kind: upstream.Program{Command: "x", Env: map[string]string{"A=B": "c"}}},
		`server "i" has a negative limit`:            {Name: "i", Kind: upstream.Program{Command: "x"}, Concurrency: -1},
	} {
		_, err := upstream.New(upstream.Config{Servers: []upstream.Server{server}})
		wantError(t, err, fault.Invalid, want)
	}
	_, err := upstream.New(upstream.Config{Servers: []upstream.Server{{Name: "a", Kind: upstream.Program{Command: "x"}},
		{Name: "a", Kind: upstream.Program{Command: "y"}}}})
	wantError(t, err, fault.Invalid, `two servers named "a"`)
}

func TestConcurrentServers(t *testing.T) {
	var servers []upstream.Server
	for i := range 12 {
		server := brokenServer(t, []string{"good", "crashes", "floods"}[i%3])
		server.Name = fmt.Sprint(server.Name, i)
		servers = append(servers, server)
	}
	s := open(t, upstream.Config{Servers: servers, RetryDelay: time.Millisecond})
	var all sync.WaitGroup
	for i := range 240 {
		name := servers[i%len(servers)].Name
		all.Go(func() {
			_, err := call(t.Context(), s, name, []string{"echo", "crash", "huge"}[i%24/12], fmt.Sprint(i))
			_ = err
			s.States()
		})
	}
	all.Wait()
	for _, server := range servers {
		if !strings.HasPrefix(server.Name, "crashes") {
			wantEcho(t, s, server.Name)
		}
	}
}
