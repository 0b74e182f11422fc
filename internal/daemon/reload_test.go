package daemon_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/config"
	"github.com/sandpiper-mcp/sandpiper/internal/daemon"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream/upstreamtest"
)

// reloadable is a daemon of the profile passthrough whose configuration a test replaces.
func reloadable(t *testing.T, dir string, scripts map[string]upstreamtest.Script) (d *daemon.Daemon, all daemon.Config,
	next *atomic.Pointer[config.Config]) {
	t.Helper()
	cfg := passingOn(t, dir, scripts)
	slices.SortFunc(cfg.Servers, func(a, b config.Server) int { return strings.Compare(a.Name, b.Name) })
	all, next = cfg, &atomic.Pointer[config.Config]{}
	cfg.Load = func() (*config.Config, error) {
		if c := next.Load(); c != nil {
			return c, nil
		}
		return nil, errors.New("sandpiper.yaml line 7: there is no key \"sevrers\"")
	}
	cfg.Servers = slices.Clone(cfg.Servers[:1])
	return start(t, cfg), all, next
}

// with is the configuration with some of its servers.
func with(cfg daemon.Config, names ...string) *config.Config {
	c := cfg.Config
	c.Servers = slices.DeleteFunc(slices.Clone(cfg.Servers), func(s config.Server) bool { return !slices.Contains(names, s.Name) })
	return &c
}

func TestReloadChangesTheListedTools(t *testing.T) {
	t.Parallel()
	d, all, next := reloadable(t, t.TempDir(), map[string]upstreamtest.Script{"a": scripted("echo"), "b": scripted("purge")})
	s := serve(t, t.Context(), d).greet()
	s.say(listTools)
	if list := s.until(`"id":7`); !strings.Contains(list, `"echo"`) || strings.Contains(list, "purge") {
		t.Errorf("before: %s", list)
	}
	next.Store(with(all, "b"))
	request(t, d, "")
	s.until("notifications/tools/list_changed")
	for { // b is listed in the background
		s.say(listTools)
		list := s.until(`"id":7`)
		if strings.Contains(list, `"echo"`) {
			t.Errorf("after: %s", list)
		}
		if strings.Contains(list, `"purge"`) {
			break
		}
	}
	if got := s.reply(call("echo", `{}`)); !strings.Contains(got, "no tool") {
		t.Errorf("the removed server: %s", got)
	}
	if got := s.reply(call("purge", `{}`)); !strings.Contains(got, "purge answers") {
		t.Errorf("the new server: %s", got)
	}
}

func (s session) reply(message string) string {
	s.t.Helper()
	s.say(message)
	return s.until(`"id":2`)
}

// request requests a reload as commands do, and compares the error that the daemon reports.
func request(t *testing.T, d *daemon.Daemon, want string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	var all []daemon.Instance
	for len(all) == 0 { // it announces itself in the background
		var id string
		var err error
		if all, id, err = daemon.RequestReload(ctx, d); err != nil || ctx.Err() != nil {
			t.Fatal(all, err)
		}
		if len(all) > 0 && (len(all) != 1 || all[0].Request != id || all[0].PID != os.Getpid()) {
			t.Fatalf("the daemon did not answer: %+v", all)
		}
	}
	if got := all[0].Error; got != want {
		t.Errorf("the daemon reports %q, want %q", got, want)
	}
}

// auditLines returns the lines of the audit log of a data directory.
func auditLines(t *testing.T, dir string) (lines []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "audit", "*.jsonl"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%q, %v", files, err)
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, strings.Split(string(b), "\n")...)
	}
	return lines
}

func TestBadConfigurationKeepsTheOldOne(t *testing.T) {
	t.Parallel()
	d, all, next := reloadable(t, t.TempDir(), map[string]upstreamtest.Script{"a": scripted("echo")})
	s := serve(t, t.Context(), d).greet()
	request(t, d, `sandpiper.yaml line 7: there is no key "sevrers"`)
	if !slices.ContainsFunc(auditLines(t, all.DataDir), func(l string) bool {
		return strings.Contains(l, `"outcome":"refused"`) && strings.Contains(l, `"section":"reload"`)
	}) {
		t.Error("the refused configuration is not in the audit log")
	}
	broken := with(all, "a")
	broken.Catalogs = []string{"/no/such/catalog.json"}
	next.Store(broken)
	if _, err := d.Reload(t.Context(), broken); err == nil || !strings.Contains(err.Error(), "/no/such/catalog.json") {
		t.Errorf("a missing catalog: %v", err)
	}
	s.say(listTools)
	s.until(`"id":7`)
	if got := s.reply(call("echo", `{}`)); !strings.Contains(got, "echo answers") {
		t.Errorf("after a bad configuration: %s", got)
	}
	next.Store(with(all, "a"))
	request(t, d, "")
}

func TestReloadReportsWhatNeedsARestart(t *testing.T) {
	t.Parallel()
	d, all, _ := reloadable(t, t.TempDir(), map[string]upstreamtest.Script{"a": scripted("echo")})
	c := with(all)
	c.Keys = map[string]string{"servers.a": "1", "policy.default": "2", "project.policy.default": "3", "data_dir": "4", "http.token": "5"}
	c.DataDir, c.HTTP.Tokens = "/elsewhere", []config.Token{{Secret: ownerToken, Tenant: tenant.Local}}
	r, err := d.Reload(t.Context(), c)
	if err != nil || !slices.Equal(r.Removed, []string{"a"}) || !slices.Equal(r.Restart, []string{"data_dir", "http.token"}) ||
		!slices.Equal(r.Applied, []string{"policy.default", "project.policy.default"}) {
		t.Errorf("%+v %v", r, err)
	}
	if w := r.Warnings(c); len(w) != 1 || !strings.Contains(w[0], "needs a restart: data_dir, http.token") {
		t.Errorf("warnings %q", w)
	}
}

// The tools of the old server must not be trusted for the new one of the same name.
func TestListingOfAReplacedServerIsNotStored(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	mute := scripted("evil")
	mute.Silent = true
	d, all, _ := reloadable(t, dir, map[string]upstreamtest.Script{"a": mute})
	result := make(chan error, 1)
	go func() {
		_, err := d.Servers.List(context.Background(), "a")
		result <- err
	}()
	other := filepath.Join(dir, "other")
	upstreamtest.Write(t, other, scripted("good"))
	c := with(all, "a")
	c.Servers[0].Env, c.Servers[0].Args = upstreamtest.Env(other), []string{"-new"}
	if _, err := d.Reload(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	upstreamtest.Write(t, filepath.Join(dir, "a"), scripted("evil"))
	<-result
	if _, err := d.Servers.List(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	for _, tool := range d.Servers.Catalog.Now().Tools {
		if tool.Definition.Tool != "good" {
			t.Errorf("the tool %s of the old server is stored", tool.Definition.Tool)
		}
	}
}

func TestChangedVariableRestartsTheServer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d, all, _ := reloadable(t, dir, map[string]upstreamtest.Script{"a": scripted("echo")})
	c := with(all, "a")
	c.Servers[0].Env["TOKEN"] = "${TOKEN}"
	for _, step := range []struct {
		value   string
		changed int
	}{{"one", 1}, {"one", 0}, {"two", 1}} {
		now := *c // servers start in the background and read the one before
		now.Lookup = func(string) (string, bool) { return step.value, true }
		if r, err := d.Reload(t.Context(), &now); err != nil || len(r.Changed) != step.changed {
			t.Errorf("%+v: %+v %v", step, r, err)
		}
	}
}

func TestStormOfSignalsDuringCalls(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	hup := make(chan os.Signal, 1)
	scripts := map[string]upstreamtest.Script{"a": scripted("echo"), "b": scripted("purge")}
	cfg := passingOn(t, dir, scripts)
	slices.SortFunc(cfg.Servers, func(a, b config.Server) int { return strings.Compare(a.Name, b.Name) })
	all, n := cfg, atomic.Int64{}
	cfg.Reloads = hup
	cfg.Load = func() (*config.Config, error) {
		if n.Add(1)%2 == 0 {
			return with(all, "a"), nil
		}
		return with(all, "a", "b"), nil
	}
	d := start(t, cfg)
	s := serve(t, t.Context(), d).greet()
	s.say(listTools)
	s.until(`"id":7`)
	var storm sync.WaitGroup
	for range 4 {
		storm.Go(func() {
			for range 25 {
				select {
				case hup <- syscall.SIGHUP:
				default: // as the runtime drops signals
				}
				time.Sleep(2 * time.Millisecond)
			}
		})
	}
	for range 50 {
		if got := s.reply(call("echo", `{}`)); !strings.Contains(got, "echo answers") {
			t.Fatalf("a call during reloads: %s", got)
		}
	}
	storm.Wait()
	if n.Load() == 0 {
		t.Error("nothing was reloaded")
	}
}

func TestTwoDaemonsReloadOnOneRequest(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first, all, next := reloadable(t, dir, map[string]upstreamtest.Script{"a": scripted("echo"), "b": scripted("purge")})
	other := all
	other.Load = func() (*config.Config, error) { return nil, errors.New("broken") }
	second := start(t, other)
	serve(t, t.Context(), first).greet()
	serve(t, t.Context(), second).greet()
	next.Store(with(all, "b"))
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for {
		answers, id, err := daemon.RequestReload(ctx, first)
		if err != nil || ctx.Err() != nil {
			t.Fatal(answers, err)
		}
		if len(answers) < 2 {
			continue
		}
		errs := []string{answers[0].Error, answers[1].Error}
		slices.Sort(errs)
		if answers[0].Request != id || answers[1].Request != id || !slices.Equal(errs, []string{"", "broken"}) {
			t.Errorf("%+v", answers)
		}
		return
	}
}

func TestEndedDaemonIsNotListed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d, _, _ := reloadable(t, dir, map[string]upstreamtest.Script{"a": scripted("echo")})
	daemons := filepath.Join(dir, "data", "daemons")
	if err := os.MkdirAll(daemons, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"7-killed.json", "7-killed.lock", "8-half.json"} { // as kill -9 leaves them
		if err := os.WriteFile(filepath.Join(daemons, name), []byte(`{"pid":7}`), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if all, err := daemon.Instances(d); len(all) > 0 || err != nil {
		t.Errorf("%+v %v", all, err)
	}
	if left, _ := filepath.Glob(filepath.Join(daemons, "*")); len(left) > 0 {
		t.Errorf("left %s", left)
	}
}
