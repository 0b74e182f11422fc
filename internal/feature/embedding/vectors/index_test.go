package vectors_test

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/feature/embedding/bert/berttest"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/embedding/local"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/embedding/model"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/embedding/model/modeltest"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/embedding/vectors"
	"github.com/sandpiper-mcp/sandpiper/internal/logtest"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog"
)

func open(t *testing.T, at *modeltest.Endpoint, dir string, change func(*vectors.Config, *model.Config)) (*vectors.Index, *logtest.Log) {
	t.Helper()
	log := &logtest.Log{}
	m := model.Config{Provider: model.Ollama, Model: "small"}
	if at != nil {
		m.URL = at.URL
	}
	cfg := vectors.Config{Dir: dir, Timeout: 10 * time.Second, Log: slog.New(slog.NewTextHandler(log, nil))}
	if change != nil {
		change(&cfg, &m)
	}
	var err error
	if cfg.Model, err = model.New(m); err != nil {
		t.Fatal(err)
	}
	x := vectors.New(cfg)
	t.Cleanup(func() {
		if err := x.Close(); err != nil {
			t.Error(err)
		}
	})
	return x, log
}

// until waits for a condition.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("timeout while waiting until %s", what)
		}
	}
}

func follow(x *vectors.Index, texts ...string) catalog.Space {
	return x.NewSpace(func() []string { return texts })
}

func known(x *vectors.Index, n int) func() bool {
	return func() bool { return x.State().Known == n }
}

var texts = []string{"list the issues of a repository", "send a mail to a person", "tell the weather of a city"}

func everything(int) bool { return true }

func TestBestReturnsMostSimilarTool(t *testing.T) {
	x, _ := open(t, modeltest.Serve(t), t.TempDir(), nil)
	s := follow(x, texts...)
	until(t, "all tools have vectors", known(x, 3))
	for i, query := range []string{"issues in the repository", "mail a person", "weather in the city"} {
		n := s.Similarities(t.Context(), query, nil)
		if got := n.Best(2, everything); len(got) != 2 || got[0] != i || n.Score(got[0]) < n.Score(got[1]) {
			t.Errorf("the best match of %q is %v", query, got)
		}
		if got := n.Best(5, func(tool int) bool { return tool != i }); len(got) != 2 || slices.Contains(got, i) {
			t.Errorf("Best that excludes %d returned %v", i, got)
		}
	}
}

func TestOnlyNewTextsAreEmbedded(t *testing.T) {
	at, dir := modeltest.Serve(t), t.TempDir()
	for round, want := range [][]string{texts, nil, {"close an issue"}} {
		before := len(at.Texts())
		x, _ := open(t, at, dir, nil)
		all := slices.Concat(texts, texts[:1]) // two tools may have the same text
		if round == 2 {
			all = append(all, want...)
		}
		follow(x, all...)
		until(t, "all tools have vectors", known(x, len(all)))
		got := at.Texts()[before:]
		slices.Sort(got)
		if want = slices.Sorted(slices.Values(want)); !slices.Equal(got, want) {
			t.Errorf("round %d embedded %q, want %q", round, got, want)
		}
		x.Close()
	}
	x, _ := open(t, at, dir, func(_ *vectors.Config, m *model.Config) { m.Model = "other" })
	before := len(at.Texts())
	follow(x, texts...)
	until(t, "all tools have vectors of the second model", known(x, 3))
	if n := len(at.Texts()) - before; n != 3 {
		t.Errorf("the second model embedded %d texts", n)
	}
}

func TestSeveralProcessesEmbedOnce(t *testing.T) {
	at, dir := modeltest.Serve(t), t.TempDir()
	var many []string
	for i := range 100 {
		many = append(many, fmt.Sprint("does thing number ", i))
	}
	var all []*vectors.Index
	for range 4 {
		x, _ := open(t, at, dir, nil)
		follow(x, many...)
		all = append(all, x)
	}
	for _, x := range all {
		until(t, "all tools have vectors", known(x, 100))
	}
	if n := len(at.Texts()); n != 100 {
		t.Errorf("%d texts were embedded", n)
	}
}

func TestDamagedFileLosesOnlyDamagedRecords(t *testing.T) {
	at := modeltest.Serve(t)
	for name, damage := range map[string]func(b []byte) []byte{
		"cut off":      func(b []byte) []byte { return b[:len(b)-5] },
		"another byte": func(b []byte) []byte { b[len(b)-20] ^= 1; return b },
		"more":         func(b []byte) []byte { return append(b, "half a rec"...) },
		"no head":      func(b []byte) []byte { return b[3:] },
		"empty":        func([]byte) []byte { return nil },
		"other size":   func(b []byte) []byte { b[16] = 3; return b },
	} {
		dir := t.TempDir()
		x, _ := open(t, at, dir, nil)
		follow(x, texts...)
		until(t, "all tools have vectors", known(x, 3))
		x.Close()
		files, err := filepath.Glob(filepath.Join(dir, "*.vectors"))
		if err != nil || len(files) != 1 {
			t.Fatal(files, err)
		}
		b, err := os.ReadFile(files[0])
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(files[0], damage(b), 0o600); err != nil {
			t.Fatal(err)
		}
		for range 2 { // the second reads the file that the first repaired
			before := len(at.Texts())
			x, _ = open(t, at, dir, nil)
			s := follow(x, texts...)
			until(t, name+" is repaired", known(x, 3))
			if got := s.Similarities(t.Context(), texts[1], nil).Best(1, everything); got[0] != 1 {
				t.Errorf("%s: found %v", name, got)
			}
			x.Close()
			if n := len(at.Texts()) - before; n > 4 {
				t.Errorf("%s: %d texts were embedded", name, n)
			}
		}
	}
}

func fails(status int) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, _ *http.Request) bool {
		w.WriteHeader(status)
		return true
	}
}

func TestEndpointErrorIsLoggedOnce(t *testing.T) {
	at := modeltest.Serve(t)
	at.Break(fails(http.StatusUnauthorized))
	x, log := open(t, at, t.TempDir(), nil)
	s := follow(x, texts...)
	until(t, "the reason is known", func() bool { return x.State().Reason != "" })
	for range 20 {
		if n := s.Similarities(t.Context(), "send mail", nil); n != nil {
			t.Fatal("Similarities returned a result without a vector")
		}
	}
	state := x.State()
	if !strings.Contains(state.Reason, "status 401") || !strings.Contains(state.Hint, "api_key") || state.Model != "small" ||
		state.Known != 0 {
		t.Errorf("%+v", state)
	}
	if n := strings.Count(log.String(), "status 401"); n == 0 || n > 2 { // once as reason and as error
		t.Errorf("the error is logged %d times:\n%s", n, log)
	}
}

func TestQueryErrorIsLoggedOnce(t *testing.T) {
	at := modeltest.Serve(t)
	x, log := open(t, at, t.TempDir(), nil)
	s := follow(x, texts...)
	until(t, "all tools have vectors", known(x, 3))
	at.Break(fails(http.StatusInternalServerError))
	for i := range 20 {
		if s.Similarities(t.Context(), fmt.Sprint("mail ", i), nil) != nil {
			t.Fatal("Similarities returned a result without a vector")
		}
	}
	if r := x.State().Reason; !strings.Contains(r, "status 500") || strings.Count(log.String(), "\n") != 1 {
		t.Errorf("the reason is %q; the log is\n%s", r, log)
	}
	at.Break(nil)
	if s.Similarities(t.Context(), "mail 0", nil) == nil || x.State().Reason != "" {
		t.Errorf("after the endpoint was repaired: %+v", x.State())
	}
}

func TestSimilaritiesTimesOut(t *testing.T) {
	at := modeltest.Serve(t)
	x, log := open(t, at, t.TempDir(), func(c *vectors.Config, _ *model.Config) { c.Timeout = 20 * time.Millisecond })
	s := follow(x, texts...)
	until(t, "all tools have vectors", known(x, 3))
	release := make(chan struct{})
	at.Break(func(_ http.ResponseWriter, r *http.Request) bool {
		<-release
		return false
	})
	for i := range 10 {
		if s.Similarities(t.Context(), fmt.Sprint("mail ", i), nil) != nil {
			t.Fatal("Similarities returned a result without a response")
		}
	}
	if r := x.State().Reason; !strings.Contains(r, "has not responded to earlier searches") {
		t.Errorf("%q", r)
	}
	close(release)
	until(t, "a query that timed out before has a result", func() bool { return s.Similarities(t.Context(), "mail 0", nil) != nil })
	if r := x.State().Reason; r != "" {
		t.Errorf("the reason is still %q", r)
	}
	if strings.Contains(log.String(), "mail") {
		t.Errorf("the log contains a query:\n%s", log)
	}
}

func TestChangedDimensionsReplaceVectors(t *testing.T) {
	at, dir := modeltest.Serve(t), t.TempDir()
	x, _ := open(t, at, dir, nil)
	follow(x, texts...)
	until(t, "all tools have vectors", known(x, 3))
	x.Close()
	longer := func(w http.ResponseWriter, r *http.Request) bool {
		b, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(bytes.Replace(b, []byte(`"model"`), []byte(`"dimensions":96,"model"`), 1)))
		return false
	}
	at.Break(longer)
	x, _ = open(t, at, dir, nil)
	s := follow(x, texts...)
	until(t, "the new model finds the tool", func() bool {
		n := s.Similarities(t.Context(), texts[2], nil)
		return n != nil && slices.Equal(n.Best(1, everything), []int{2})
	})
}

func TestNewSpaceReplacesPrevious(t *testing.T) {
	at := modeltest.Serve(t)
	x, _ := open(t, at, t.TempDir(), nil)
	var last catalog.Space
	for i := range 50 {
		last = follow(x, append(texts, fmt.Sprint("number ", i))...)
	}
	until(t, "the latest space finds a tool that only it has", func() bool {
		n := last.Similarities(t.Context(), "number 49", nil)
		return n != nil && slices.Equal(n.Best(1, everything), []int{3})
	})
}

func TestEmptySpaceHasNoSimilarities(t *testing.T) {
	x, log := open(t, modeltest.Serve(t), t.TempDir(), nil)
	s := follow(x)
	if n := s.Similarities(t.Context(), "mail", nil); n != nil {
		t.Errorf("%v", n)
	}
	if log.String() != "" {
		t.Error(log)
	}
}

// install installs a local model in a directory, and returns the change of a configuration that uses it.
func install(t *testing.T, models string) (local.Model, func(*vectors.Config, *model.Config)) {
	t.Helper()
	files := t.TempDir()
	if err := os.CopyFS(files, berttest.Files(1)); err != nil {
		t.Fatal(err)
	}
	m, err := local.Store(models).Add(t.Context(), model.DefaultLocal, local.Source{From: files})
	if err != nil {
		t.Fatal(err)
	}
	return m, func(_ *vectors.Config, c *model.Config) { *c = model.Config{Provider: model.Local, Dir: models} }
}

// The vectors of a model that is removed while an Index creates them are deleted, and not created again.
func TestRemoveVectorsOfModelInUse(t *testing.T) {
	models, dir := t.TempDir(), t.TempDir()
	_, use := install(t, models)
	x, _ := open(t, nil, dir, use)
	many := make([]string, 20_000)
	for i := range many {
		many[i] = fmt.Sprint("does thing number ", i)
	}
	follow(x, many...)
	stored := func() int {
		all, err := filepath.Glob(filepath.Join(dir, "*.vectors"))
		if err != nil {
			t.Fatal(err)
		}
		return len(all)
	}
	until(t, "vectors are stored", func() bool { return stored() == 1 })
	sum, err := local.Store(models).Checksum(model.DefaultLocal)
	if err == nil {
		err = local.Store(models).Remove(model.DefaultLocal)
	}
	if err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		bytes, err := vectors.RemoveVectors(t.Context(), dir, model.LocalIdentity(sum))
		if err != nil || (bytes > 0) != (i == 0) || stored() != 0 {
			t.Errorf("removal %d of %d bytes: %v; %d files remain", i+1, bytes, err, stored())
		}
	}
	follow(x, texts...)
	until(t, "the model is missed", func() bool { return strings.Contains(x.State().Reason, "is not installed") })
	if n := stored(); n != 0 {
		t.Errorf("%d files were created again", n)
	}
}

// Search continues without a local model whose file is truncated or damaged.
func TestDamagedLocalModelIsReported(t *testing.T) {
	models, dir := t.TempDir(), t.TempDir()
	m, use := install(t, models)
	x, _ := open(t, nil, dir, use)
	s := follow(x, texts...)
	until(t, "all tools have vectors", known(x, 3))
	if s.Similarities(t.Context(), "send mail", nil) == nil {
		t.Fatalf("%+v", x.State())
	}
	if err := os.Truncate(m.Path, m.Bytes/2); err != nil {
		t.Fatal(err)
	}
	if n := s.Similarities(t.Context(), "tell the weather", nil); n != nil || !strings.Contains(x.State().Reason,
		"truncated while in use") {
		t.Errorf("%v, %+v", n, x.State())
	}
	x, _ = open(t, nil, dir, use)
	s = follow(x, texts...)
	until(t, "the reason is known", func() bool { return x.State().Reason != "" })
	if n := s.Similarities(t.Context(), "tell the weather", nil); n != nil || !strings.Contains(x.State().Reason, "damaged") {
		t.Errorf("%v, %+v", n, x.State())
	}
}

func TestSearchWhileSpaceFills(t *testing.T) {
	at := modeltest.Serve(t)
	x, _ := open(t, at, t.TempDir(), nil)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 10 {
				s := follow(x, append(texts, fmt.Sprint(i, " and ", j))...)
				if n := s.Similarities(t.Context(), texts[j%3], nil); n != nil {
					n.Best(3, everything)
				}
				x.State()
			}
		})
	}
	wg.Wait()
	until(t, "the latest space has all vectors", known(x, 4))
}
