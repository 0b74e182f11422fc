package bert

import "fmt"

// section is a part of the weights in a model file.
type section struct {
	to      *[]float32
	size    int      // numbers
	tensors []string // of the published model, which follow one another in the section
	inputs  int      // of a matrix, which is stored in panels; 0 for a list of vectors
}

// sections returns the weights of a model in the order of a model file.
func (m *Model) sections() []section {
	h := m.cfg.Hidden
	embeddings := func(to *[]float32, rows int, name string) section {
		return section{to: to, size: rows * h, tensors: []string{"embeddings." + name + ".weight"}}
	}
	all := []section{
		embeddings(&m.words, m.cfg.Vocabulary, "word_embeddings"),
		embeddings(&m.positions, m.cfg.Positions, "position_embeddings"),
		embeddings(&m.kind, 2, "token_type_embeddings"),
	}
	all = append(all, m.norm.sections(m.cfg, "embeddings.LayerNorm")...)
	for i := range m.layers {
		l, name := &m.layers[i], fmt.Sprintf("encoder.layer.%d.", i)
		self := name + "attention.self."
		all = append(all, l.attention.sections(h, 3*h, self+"query", self+"key", self+"value")...)
		all = append(all, l.output.sections(h, h, name+"attention.output.dense")...)
		all = append(all, l.norm.sections(m.cfg, name+"attention.output.LayerNorm")...)
		all = append(all, l.inner.sections(h, m.cfg.Inner, name+"intermediate.dense")...)
		all = append(all, l.outer.sections(m.cfg.Inner, h, name+"output.dense")...)
		all = append(all, l.innerNorm.sections(m.cfg, name+"output.LayerNorm")...)
	}
	return all
}

func (n *layerNorm) sections(cfg Config, name string) []section {
	n.epsilon = cfg.Epsilon
	return []section{
		{to: &n.scale, size: cfg.Hidden, tensors: []string{name + ".weight"}},
		{to: &n.shift, size: cfg.Hidden, tensors: []string{name + ".bias"}},
	}
}

func (l *linear) sections(in, out int, names ...string) []section {
	l.in, l.out = in, out
	matrix, bias := section{to: &l.panels, size: in * out, inputs: in}, section{to: &l.bias, size: out}
	for _, name := range names {
		matrix.tensors = append(matrix.tensors, name+".weight")
		bias.tensors = append(bias.tensors, name+".bias")
	}
	return []section{matrix, bias}
}

// weightBytes returns the size of the weights of a model.
func weightBytes(cfg Config) int {
	m := Model{cfg: cfg, layers: make([]layer, cfg.Layers)}
	n := 0
	for _, s := range m.sections() {
		n += 4 * s.size
	}
	return n
}
