package bert_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/embedding/bert"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/embedding/bert/berttest"
)

func TestConvertRejectsUnsupportedModels(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ file, old, new, want string }{
		{"config.json", `"bert"`, `"roberta"`, "its type is \"roberta\""},
		{"config.json", `"gelu"`, `"relu"`, `with the activation "relu"`},
		{"config.json", `"hidden_size":32`, `"hidden_size":40`, "hidden_size is 40"},
		{"config.json", `"hidden_size":32`, `"hidden_size":-16`, "hidden_size is -16"},
		{"config.json", `"num_attention_heads":2`, `"num_attention_heads":32`, "attention heads"},
		{"config.json", `"num_hidden_layers":1`, `"num_hidden_layers":2`, "has no tensor encoder.layer.1."},
		{"config.json", `"vocab_size":60`, `"vocab_size":61`, "60 different tokens instead of 61"},
		{"config.json", `"vocab_size":60`, `"vocab_size":200000,"hidden_size":1024`, "the model is too large: it has"},
		{"config.json", "{", "[", "config.json of the model cannot be read"},
		{"tokenizer.json", "WordPiece", "BPE", "its tokenizer is not the one of uncased BERT"},
		{"tokenizer.json", "[SEP]", "[XEP]", "no token [SEP]"},
		{"tokenizer.json", `"list":4`, `"list":400`, "the id of a token is 400"},
		{"model.safetensors", "F32", "F16", "in float32"},
		{"model.safetensors", "query.weight", "query.height", "has no tensor encoder.layer.0.attention.self.query.weight"},
		{"model.safetensors", `"data_offsets":[0,`, `"data_offsets":[9,`, "has no tensor"},
		{"model.safetensors", `{"__metadata__"`, `["__metadata__"`, "model.safetensors of the model cannot be read"},
		{"1_Pooling/config.json", "", `{"pooling_mode_cls_token": true}`, "the mean of all tokens"},
	} {
		files := berttest.Files(1)
		if test.old == "" {
			files[test.file] = files["config.json"]
			files[test.file].Data, test.old = []byte("x"), "x"
			files["config.json"] = berttest.Files(1)["config.json"]
		}
		file := files[test.file]
		if !bytes.Contains(file.Data, []byte(test.old)) {
			t.Fatalf("%s does not contain %s", test.file, test.old)
		}
		file.Data = bytes.ReplaceAll(file.Data, []byte(test.old), []byte(test.new))
		err := bert.Convert(&bytes.Buffer{}, files)
		if fault.KindOf(err) != fault.Invalid || !strings.Contains(fault.Message(err), test.want) || fault.Hint(err) == "" {
			t.Errorf("%s with %s: %v", test.file, test.new, err)
		}
	}
	for _, missing := range []string{"config.json", "tokenizer.json", "model.safetensors"} {
		files := berttest.Files(1)
		delete(files, missing)
		if err := bert.Convert(&bytes.Buffer{}, files); fault.KindOf(err) != fault.Invalid || !strings.Contains(fault.Message(err),
			"the model has no file "+missing) {
			t.Errorf("%v", err)
		}
	}
}

// A model file is rejected if any part of it is changed or missing, also with a valid checksum.
func TestOpenRejectsDamagedFile(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	if err := bert.Convert(&b, berttest.Files(1)); err != nil {
		t.Fatal(err)
	}
	whole := b.Bytes()
	sign := func(b []byte) []byte {
		sum := sha256.Sum256(b[:len(b)-sha256.Size])
		return append(b[:len(b)-sha256.Size], sum[:]...)
	}
	changed := func(at int) []byte {
		b := bytes.Clone(whole)
		b[at] ^= 1
		return b
	}
	for name, content := range map[string][]byte{
		"empty": {}, "short": whole[:10], "half": whole[:len(whole)/2], "longer": append(bytes.Clone(whole), 0),
		"other": []byte(strings.Repeat("x", 1<<16)),
		"magic": changed(0), "length": changed(17), "header": changed(30), "weights": changed(len(whole) / 2),
		"checksum":     changed(len(whole) - 1),
		"signed magic": sign(changed(0)), "signed length": sign(changed(19)), "signed header": sign(changed(20)),
		"signed half": sign(bytes.Clone(whole[:len(whole)/2])), "signed begin": sign(bytes.Clone(whole[:40])),
		"only a checksum": sign(make([]byte, sha256.Size)),
	} {
		path := filepath.Join(t.TempDir(), "model")
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		if m, err := bert.Open(path); err == nil || fault.KindOf(err) == fault.Internal || !strings.Contains(fault.Hint(err),
			"models add") {
			t.Errorf("%s: %v, %v", name, m, err)
		}
	}
	large := filepath.Join(t.TempDir(), "model")
	if err := errors.Join(os.WriteFile(large, whole, 0o600), os.Truncate(large, 1<<30)); err != nil {
		t.Fatal(err)
	}
	if m, err := bert.Open(large); fault.KindOf(err) != fault.Unavailable || !strings.Contains(fault.Message(err), "too large") {
		t.Errorf("%v, %v", m, err)
	}
}

// Reading the map of a file that another program truncated must not end the process, wherever the
// rest of the file ends.
func TestEmbedReportsTruncatedFile(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("files are not mapped on this system")
	}
	for _, rest := range []float64{0, .1, .3, .5, .7, .9, 1} {
		m, path := open(t, berttest.Files(1))
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(path, int64(rest*float64(info.Size()-1))); err != nil {
			t.Fatal(err)
		}
		if v, err := m.Embed("list issues", always); fault.KindOf(err) != fault.Unavailable || !strings.Contains(fault.Message(err),
			"truncated while in use") {
			t.Errorf("%.0f%% of the file: %v, %v", 100*rest, v, err)
		}
	}
}

// A model whose file was replaced or removed is still usable.
func TestEmbedUsesReplacedFile(t *testing.T) {
	t.Parallel()
	m, path := open(t, berttest.Files(1))
	other := filepath.Join(t.TempDir(), "other")
	if err := os.WriteFile(other, []byte("short"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(other, path); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Embed("list issues", always); err != nil {
		t.Error(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Embed("list issues", always); err != nil {
		t.Error(err)
	}
}

// FuzzConvert expects an error or a model, whatever the published files contain.
func FuzzConvert(f *testing.F) {
	files := berttest.Files(1)
	f.Add(files["config.json"].Data, files["tokenizer.json"].Data, files["model.safetensors"].Data)
	f.Fuzz(func(t *testing.T, config, tokenizer, weights []byte) {
		files := berttest.Files(1)
		files["config.json"].Data, files["tokenizer.json"].Data, files["model.safetensors"].Data = config, tokenizer, weights
		if err := bert.Convert(&bytes.Buffer{}, files); err != nil && fault.KindOf(err) == fault.Internal {
			t.Error(err)
		}
	})
}
