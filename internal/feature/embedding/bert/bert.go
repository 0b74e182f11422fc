// Package bert computes sentence embeddings with BERT encoders such as all-MiniLM-L6-v2,
// in this process and without cgo.
//
// Terms. A token is a word, or a part of one, of the model's vocabulary (WordPiece). The
// vector of a text is the mean of the vectors of its tokens in the last layer. A model file
// holds the configuration, the vocabulary and the weights, with a checksum; Convert writes
// one from the files of a published model, Open maps it into memory.
//
// The products of matrices, which take nearly all the time, are written in assembly for amd64
// with AVX2 and FMA and for arm64; elsewhere they are written in Go.
//
// A Model is safe for concurrent use. The package reads no network and decides nothing about
// where files are.
package bert

import (
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"sync"
)

// Config of a model: the part of config.json on which its computation depends.
type Config struct {
	Hidden       int     `json:"hidden_size"`
	Inner        int     `json:"intermediate_size"`
	Layers       int     `json:"num_hidden_layers"`
	Heads        int     `json:"num_attention_heads"`
	Vocabulary   int     `json:"vocab_size"`
	Positions    int     `json:"max_position_embeddings"`
	Epsilon      float64 `json:"layer_norm_eps"`
	Activation   string  `json:"hidden_act"`
	Type         string  `json:"model_type"`
	PositionType string  `json:"position_embedding_type"`
}

// MaxTokens is the number of tokens of a text that count; the rest is ignored. The
// time of a text grows with it.
const MaxTokens = 128

// layerNorm normalises vectors to mean 0 and variance 1, then scales and shifts them.
type layerNorm struct {
	scale, shift []float32
	epsilon      float64
}

// layer is one layer of the encoder.
type layer struct {
	attention linear // queries, keys and values, in this order
	output    linear
	norm      layerNorm
	inner     linear
	outer     linear
	innerNorm layerNorm
}

// Model is an encoder.
type Model struct {
	cfg       Config
	tokens    tokenizer
	words     []float32 // a vector for each token of the vocabulary
	positions []float32
	kind      []float32 // of the first sentence, of which there is only one
	norm      layerNorm
	layers    []layer
	scratch   sync.Pool // *scratch
	identity  string
	path      string
	opened    os.FileInfo // of the file when it was opened
	close     func() error
}

// Dimensions returns the dimensions of the vectors.
func (m *Model) Dimensions() int { return m.cfg.Hidden }

// Identity returns the checksum of the model file.
func (m *Model) Identity() string { return m.identity }

// Close unmaps the model file. The caller has ended all calls of Embed.
func (m *Model) Close() error { return m.close() }

// scratch holds the intermediate values of one text: a row for each token, rounded up to
// whole blocks.
type scratch struct {
	x, y, attended []float32 // rows of Hidden numbers
	mixed          []float32 // rows of 3 × Hidden: queries, keys and values
	inner          []float32 // rows of Inner
	keys, scores   []float32 // of one head
}

func roundUp(n, block int) int { return (n + block - 1) / block * block }

func newScratch(cfg Config) *scratch {
	most := min(MaxTokens, cfg.Positions)
	rows, cols := roundUp(most, blockRows), roundUp(most, blockCols)
	numbers := func(n int) []float32 { return make([]float32, n) }
	return &scratch{
		x: numbers(rows * cfg.Hidden), y: numbers(rows * cfg.Hidden), attended: numbers(rows * cfg.Hidden),
		mixed: numbers(rows * 3 * cfg.Hidden), inner: numbers(rows * cfg.Inner),
		keys: numbers(cols * cfg.Hidden / cfg.Heads), scores: numbers(rows * cols),
	}
}

// Embed returns the vector of a text, which is not normalised. It calls between before each
// layer, and returns its error.
func (m *Model) Embed(text string, between func() error) (vector []float32, err error) {
	// If another program truncates the file, reading the map faults, or returns zeros in its last
	// page. An emulator of another processor may report the fault without its address.
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		p := recover()
		_, isError := p.(runtime.Error)
		_, hasAddress := p.(interface{ Addr() uintptr })
		switch {
		case hasAddress, (isError || p == nil && err == nil) && m.truncated():
			vector, err = nil, damaged(nil, "it was truncated while in use")
		case p != nil:
			panic(p)
		}
	}()
	return m.embed(text, between)
}

// truncated reports whether the model file is shorter than when it was opened.
func (m *Model) truncated() bool {
	now, err := os.Stat(m.path)
	return err == nil && os.SameFile(now, m.opened) && now.Size() < m.opened.Size()
}

func (m *Model) embed(text string, between func() error) ([]float32, error) {
	ids := m.tokens.encode(text, min(MaxTokens, m.cfg.Positions))
	s := m.scratch.Get().(*scratch)
	defer m.scratch.Put(s)
	n, rows := len(ids), roundUp(len(ids), blockRows)
	m.lookUp(s.x, ids)
	clear(s.x[n*m.cfg.Hidden : rows*m.cfg.Hidden])
	for i := range m.layers {
		if err := between(); err != nil {
			return nil, err
		}
		m.layers[i].apply(s, m.cfg, n)
	}
	mean := make([]float32, m.cfg.Hidden)
	for i := range n {
		addTo(mean, s.x[i*m.cfg.Hidden:])
	}
	for i := range mean {
		mean[i] /= float32(n)
	}
	return mean, nil
}

// lookUp sets x to the vectors of tokens before the first layer.
func (m *Model) lookUp(x []float32, ids []int32) {
	h := m.cfg.Hidden
	for i, id := range ids {
		row := x[i*h : (i+1)*h]
		copy(row, m.words[int(id)*h:])
		addTo(row, m.positions[i*h:])
		addTo(row, m.kind)
		m.norm.apply(row)
	}
}

// apply replaces s.x by the output of the layer for n tokens.
func (l *layer) apply(s *scratch, cfg Config, n int) {
	rows, h := roundUp(n, blockRows), cfg.Hidden
	l.attention.apply(s.mixed, s.x, rows)
	for head := range cfg.Heads {
		s.attend(cfg, head, n)
	}
	l.output.apply(s.y, s.attended, rows)
	l.norm.add(s.x[:rows*h], s.y)
	l.inner.apply(s.inner, s.x, rows)
	gelu(s.inner[:rows*cfg.Inner])
	l.outer.apply(s.y, s.inner, rows)
	l.innerNorm.add(s.x[:rows*h], s.y)
}

// attend sets the columns of one head in s.attended to the mean of the values of all tokens,
// weighted by the softmax of the products of queries and keys.
func (s *scratch) attend(cfg Config, head, n int) {
	h, size, stride := cfg.Hidden, cfg.Hidden/cfg.Heads, 3*cfg.Hidden
	rows, cols := roundUp(n, blockRows), roundUp(n, blockCols)
	queries, keys, values := s.mixed[head*size:], s.mixed[h+head*size:], s.mixed[2*h+head*size:]
	clear(s.keys[:cols*size])
	for token := range n {
		panel := s.keys[token/blockCols*blockCols*size+token%blockCols:]
		for i, x := range keys[token*stride : token*stride+size] {
			panel[i*blockCols] = x
		}
	}
	for col := 0; col < cols; col += blockCols {
		for row := 0; row < rows; row += blockRows {
			gemm(size, queries[row*stride:], stride, s.keys[col*size:], blockCols, s.scores[row*cols+col:], cols)
		}
	}
	for row := range n {
		softmax(s.scores[row*cols:row*cols+n], 1/math.Sqrt(float64(size)))
	}
	for col := 0; col < size; col += blockCols {
		for row := 0; row < rows; row += blockRows {
			gemm(n, s.scores[row*cols:], cols, values[col:], stride, s.attended[row*h+head*size+col:], h)
		}
	}
}

// softmax replaces numbers, multiplied by scale, by their share of the sum of exponentials.
func softmax(x []float32, scale float64) {
	most := x[0]
	for _, v := range x {
		most = max(most, v)
	}
	sum := 0.0
	for i, v := range x {
		e := math.Exp(scale * float64(v-most))
		x[i] = float32(e)
		sum += e
	}
	for i := range x {
		x[i] = float32(float64(x[i]) / sum)
	}
}

// add sets each row of x to the normalised sum of x and y.
func (n layerNorm) add(x, y []float32) {
	for h := len(n.scale); len(x) > 0; x, y = x[h:], y[h:] {
		addTo(x[:h], y)
		n.apply(x[:h])
	}
}

func (n layerNorm) apply(row []float32) {
	sum, squares := 0.0, 0.0
	for _, v := range row {
		sum += float64(v)
	}
	mean := sum / float64(len(row))
	for _, v := range row {
		squares += (float64(v) - mean) * (float64(v) - mean)
	}
	factor := 1 / math.Sqrt(squares/float64(len(row))+n.epsilon)
	for i, v := range row {
		row[i] = float32((float64(v)-mean)*factor)*n.scale[i] + n.shift[i]
	}
}

// The function GELU between -geluRange and geluRange, by which it is interpolated with an
// error below 1e-6: computing it exactly would take a quarter of the time of a text.
const (
	geluRange = 8
	geluSteps = 512 // per 1
)

var geluTable = sync.OnceValue(func() []float32 {
	table := make([]float32, 2*geluRange*geluSteps+2)
	for i := range table {
		x := float64(i)/geluSteps - geluRange
		table[i] = float32(x / 2 * (1 + math.Erf(x/math.Sqrt2)))
	}
	return table
})

// gelu replaces each number x by x times the share of the normal distribution below x.
func gelu(x []float32) {
	table := geluTable()
	for i, v := range x {
		switch {
		case v >= geluRange:
		case v > -geluRange:
			at := (v + geluRange) * geluSteps
			step := int(at)
			x[i] = table[step] + (at-float32(step))*(table[step+1]-table[step])
		case v <= -geluRange:
			x[i] = 0
		}
	}
}
