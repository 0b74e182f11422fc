package bert

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// The files of a published model.
const (
	WeightsFile   = "model.safetensors"
	configFile    = "config.json"
	tokenizerFile = "tokenizer.json"
	poolingFile   = "1_Pooling/config.json" // optional
)

// Convert writes a model file from the files of a published model, as sentence-transformers
// stores it.
func Convert(w io.Writer, files fs.FS) error {
	var h header
	if err := readJSON(files, configFile, &h.Config); err != nil {
		return err
	}
	if err := h.Config.check(); err != nil {
		return err
	}
	if err := checkPooling(files); err != nil {
		return err
	}
	var err error
	if h.Tokens, err = readVocabulary(files); err != nil {
		return err
	}
	if _, err := newTokenizer(h.Tokens, h.Config.Vocabulary); err != nil {
		return err
	}
	data, err := readFile(files, WeightsFile, maxWeights+maxHeader)
	if err != nil {
		return err
	}
	tensors, err := parseTensors(data)
	if err != nil {
		return err
	}
	return write(w, h, tensors.section)
}

// readFile reads a file of at most limit bytes.
func readFile(files fs.FS, name string, limit int64) ([]byte, error) {
	f, err := files.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fault.Wrap(fault.Invalid, err, "the model has no file %s", name).
			WithHint("use a sentence transformer with %s, %s and %s", WeightsFile, configFile, tokenizerFile)
	}
	if err != nil {
		return nil, unreadable(err, name)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, unreadable(err, name)
	}
	if int64(len(data)) > limit {
		return nil, fault.New(fault.Invalid, "the model is too large: its file %s has more than %d MB", name, limit>>20).
			WithHint("use a smaller model, such as all-MiniLM-L6-v2, or run this one at an endpoint of search.embeddings")
	}
	return data, nil
}

func unreadable(err error, name string) error {
	return fault.Wrap(fault.Invalid, err, "the file %s of the model cannot be read", name).WithHint("download the model again")
}

func readJSON(files fs.FS, name string, to any) error {
	data, err := readFile(files, name, maxHeader)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, to); err != nil {
		return unreadable(err, name)
	}
	return nil
}

// checkPooling returns an error unless the vector of a text is the mean of those of its tokens.
func checkPooling(files fs.FS) error {
	var pooling struct {
		Mean bool `json:"pooling_mode_mean_tokens"`
		CLS  bool `json:"pooling_mode_cls_token"`
		Max  bool `json:"pooling_mode_max_tokens"`
	}
	if _, err := fs.Stat(files, poolingFile); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := readJSON(files, poolingFile, &pooling); err != nil {
		return err
	}
	if !pooling.Mean || pooling.CLS || pooling.Max {
		return wrongKind("%s does not select the mean of all tokens", poolingFile)
	}
	return nil
}

// readVocabulary returns the tokens by id.
func readVocabulary(files fs.FS) ([]string, error) {
	var t struct {
		Normalizer struct {
			Type         string `json:"type"`
			Lowercase    bool   `json:"lowercase"`
			StripAccents *bool  `json:"strip_accents"`
		} `json:"normalizer"`
		Model struct {
			Type  string         `json:"type"`
			Vocab map[string]int `json:"vocab"`
		} `json:"model"`
	}
	if err := readJSON(files, tokenizerFile, &t); err != nil {
		return nil, err
	}
	n := t.Normalizer
	if n.Type != "BertNormalizer" || !n.Lowercase || n.StripAccents != nil && !*n.StripAccents ||
		t.Model.Type != "" && t.Model.Type != "WordPiece" {
		return nil, wrongKind("its tokenizer is not the one of uncased BERT")
	}
	tokens := make([]string, len(t.Model.Vocab))
	for token, id := range t.Model.Vocab {
		if id < 0 || id >= len(tokens) {
			return nil, wrongKind("the id of a token is %d, and there are %d tokens", id, len(tokens))
		}
		tokens[id] = token
	}
	return tokens, nil
}
