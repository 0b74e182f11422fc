package bert_test

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/feature/embedding/bert"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/embedding/bert/berttest"
)

// open converts files and opens the result.
func open(t testing.TB, files fs.FS) (*bert.Model, string) {
	t.Helper()
	var b bytes.Buffer
	if err := bert.Convert(&b, files); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "model")
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	m, err := bert.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return m, path
}

// minilm returns the files of the real model.
func minilm(t testing.TB) fs.FS {
	wheel, err := zip.OpenReader(berttest.Wheel(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { wheel.Close() })
	f, err := wheel.Open("all_minilm_l6_v2/model.zip")
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	files, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func always() error { return nil }

func embed(t testing.TB, m *bert.Model, text string) []float32 {
	t.Helper()
	v, err := m.Embed(text, always)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func cosine(a, b []float32) float64 {
	ab, aa, bb := 0.0, 0.0, 0.0
	for i := range a {
		ab, aa, bb = ab+float64(a[i])*float64(b[i]), aa+float64(a[i])*float64(a[i]), bb+float64(b[i])*float64(b[i])
	}
	return ab / math.Sqrt(aa*bb)
}

// TestVectorsEqualThoseOfONNXRuntime compares with vectors of onnxruntime 1.32.0, for the
// tokens of tokenizers 0.23.3.
func TestVectorsEqualThoseOfONNXRuntime(t *testing.T) {
	m, _ := open(t, minilm(t))
	data, err := os.ReadFile("testdata/minilm.json")
	if err != nil {
		t.Fatal(err)
	}
	var golden []struct {
		Text   string
		Tokens []int32
		Vector []float32
	}
	if err := json.Unmarshal(data, &golden); err != nil || len(golden) < 10 {
		t.Fatalf("%d texts, %v", len(golden), err)
	}
	for _, want := range golden {
		if got := m.Tokens(want.Text); !slices.Equal(got, want.Tokens) {
			t.Errorf("the tokens of %q are\n%v, want\n%v", want.Text, got, want.Tokens)
		}
		if c := cosine(embed(t, m, want.Text), want.Vector); !(c > .9999) {
			t.Errorf("%q: the cosine is %.6f", want.Text, c)
		}
	}
}

// Concurrent calls share the weights, but no other memory.
func TestConcurrentTextsDoNotMix(t *testing.T) {
	t.Parallel()
	m, _ := open(t, berttest.Files(1))
	texts := []string{"list issues", "send mail", "", "x", "a long text that has more tokens than the model has positions, so that its " +
		"end is ignored"}
	var want [][]float32
	for _, text := range texts {
		want = append(want, embed(t, m, text))
	}
	var all sync.WaitGroup
	for i := range 40 {
		all.Go(func() {
			if v, err := m.Embed(texts[i%5], always); err != nil || cosine(v, want[i%5]) < 1-1e-9 {
				t.Errorf("%q: %v, %v", texts[i%5], v, err)
			}
		})
	}
	all.Wait()
	if c := cosine(want[0], want[1]); c > .999 {
		t.Errorf("the cosine of two texts is %v", c)
	}
}

func BenchmarkEmbed(b *testing.B) {
	m, _ := open(b, minilm(b))
	for name, text := range map[string]string{
		"query": "create a pull request from a branch",
		"tool": "github create pull request: Create a new pull request in a GitHub repository. Requires the owner, the repository, a " +
			"title, the head branch " +
			"with the changes and the base branch into which they are merged. Issues, pull requests, repositories and users of GitHub, " +
			"with search and comments",
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportMetric(float64(len(m.Tokens(text))), "tokens")
			for b.Loop() {
				embed(b, m, text)
			}
		})
	}
}
