package vectors

import (
	"context"
	"os"
	"slices"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/embedding/model"
)

// Pauses after an error.
const (
	firstPause = 10 * time.Second
	lastPause  = 5 * time.Minute
)

// run fills spaces until ctx ends.
func (x *Index) run(ctx context.Context) {
	pause := firstPause
	var again <-chan time.Time
	for {
		select {
		case <-x.more:
		case <-again:
		case <-ctx.Done():
			return
		}
		x.mu.Lock()
		s := x.now
		x.mu.Unlock()
		err := x.fill(ctx, s)
		x.record(embeddingTools, err)
		if err == nil {
			again, pause = nil, firstPause
			continue
		}
		s.abandon()
		again, pause = time.After(pause), min(2*pause, lastPause)
	}
}

// missingText is a text without a vector, and the tools that have this text.
type missingText struct {
	key   key
	text  string
	tools []int
}

// fill loads the stored vectors and embeds the missing texts.
func (x *Index) fill(ctx context.Context, s *Space) error {
	file, err := x.file()
	if err != nil {
		if s.of.Load() == nil {
			s.show(make([]vector, len(s.texts())))
		}
		return err
	}
	missing, _, err := s.load(file)
	if err != nil || len(missing) == 0 {
		return err
	}
	unlock, err := file.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	missing, dimensions, err := s.load(file) // another process may have filled it
	if err != nil {
		return err
	}
	return x.embedMissing(ctx, s, file, dimensions, missing)
}

func (x *Index) file() (vectorFile, error) {
	identity, err := x.cfg.Model.Identity()
	if err != nil {
		return vectorFile{}, err
	}
	if err := os.MkdirAll(x.cfg.Dir, 0o700); err != nil {
		return vectorFile{}, storeError(err)
	}
	return fileOf(x.cfg.Dir, identity), nil
}

// load publishes the stored vectors of the space. It returns the texts without a
// vector and the dimensions of the stored vectors.
func (s *Space) load(file vectorFile) (missing []missingText, dimensions int, err error) {
	vectors, dimensions, err := file.load()
	if err != nil {
		return nil, 0, err
	}
	if now := s.x.cfg.Model.Dimensions(); now != 0 && now != dimensions {
		vectors, dimensions = nil, 0 // of another model with the same name
	}
	texts := s.texts()
	of := make([]vector, len(texts))
	index := map[key]int{}
	for i, text := range texts {
		k := keyOf(text)
		if v, ok := vectors[k]; ok {
			of[i] = v
			continue
		}
		at, ok := index[k]
		if !ok {
			at = len(missing)
			index[k] = at
			missing = append(missing, missingText{key: k, text: text})
		}
		missing[at].tools = append(missing[at].tools, i)
	}
	s.show(of)
	// Texts of similar length share a batch: a local model pads the shorter ones.
	slices.SortStableFunc(missing, func(a, b missingText) int { return len(a.text) - len(b.text) })
	return missing, dimensions, nil
}

// show publishes the vectors of the space, and makes State report it.
func (s *Space) show(of []vector) {
	s.publish(of)
	s.x.mu.Lock()
	s.x.shown = s
	s.x.mu.Unlock()
}

// Limits of embedding one space.
const (
	publishEvery = 16 // batches
	maxRejected  = 3  // batches that the model may reject before learn stops
)

// embedMissing embeds the missing texts of a space. It continues after a batch that the model
// rejects.
func (x *Index) embedMissing(ctx context.Context, s *Space, file vectorFile, dimensions int, missing []missingText) (rejection error) {
	of := slices.Clone(*s.of.Load())
	defer func() { s.publish(of) }()
	rejected, n := 0, 0
	for batch := range slices.Chunk(missing, model.Batch) {
		if !x.latest(s) {
			return rejection
		}
		vectors, err := x.embed(ctx, file, batch)
		switch {
		case err == nil:
		case fault.KindOf(err) == fault.Invalid && rejected+1 < maxRejected:
			rejection = err
			rejected++
			continue
		default:
			return err
		}
		if dimensions != 0 && len(vectors[0]) != dimensions {
			return fault.New(fault.Unavailable, "the embedding model returned vectors of %d dimensions instead of %d; all vectors are "+
				"created again", len(vectors[0]), dimensions)
		}
		for i, l := range batch {
			for _, t := range l.tools {
				of[t] = vectors[i]
			}
		}
		if n++; n%publishEvery == 0 {
			s.publish(slices.Clone(of))
		}
	}
	return rejection
}

// embed creates the vectors of a batch and stores them.
func (x *Index) embed(ctx context.Context, file vectorFile, batch []missingText) ([]vector, error) {
	texts, keys := make([]string, len(batch)), make([]key, len(batch))
	for i, l := range batch {
		texts[i], keys[i] = l.text, l.key
	}
	made, err := x.cfg.Model.Embed(ctx, texts)
	if err != nil {
		return nil, err
	}
	vectors := make([]vector, len(made))
	for i, v := range made {
		vectors[i] = v
	}
	return vectors, file.add(keys, vectors)
}
