package session

import (
	"context"
	"encoding/json"
	"sync"
)

// maxRedacted bounds the cache, in bytes.
const maxRedacted = 8 << 20

// redacted caches redacted tasks: a log is rewritten with every step, and detecting values in
// all of it each time would cost more than the step.
type redacted struct {
	mu    sync.Mutex
	tasks map[string]Task // by session and id
	bytes int
}

func (r *redacted) find(key string) (Task, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t, ok := r.tasks[key]
	return t, ok
}

func (r *redacted) put(key string, t Task) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := len(t.Code) + len(t.Result) + len(t.Output) + len(t.Description)
	if r.tasks == nil || r.bytes+n > maxRedacted {
		r.tasks, r.bytes = map[string]Task{}, 0
	}
	r.tasks[key] = t
	r.bytes += n
}

// redact replaces private values in s by tokens.
func (l *Log) redact(ctx context.Context, s *Session) (err error) {
	if l.cfg.Redact == nil {
		return nil
	}
	text := func(to *string) {
		if err == nil {
			*to, err = l.cfg.Redact(ctx, s.ID, *to)
		}
	}
	for i := range s.Tasks {
		t := &s.Tasks[i]
		key := s.ID + "/" + t.ID + "/" + t.Timestamp.String()
		if was, ok := l.seen.find(key); ok {
			*t = was
			continue
		}
		for _, to := range []*string{&t.Description, &t.Code, &t.Result, &t.Output} {
			text(to)
		}
		if err == nil {
			l.seen.put(key, *t)
		}
	}
	for i := range s.StateFiles {
		text(&s.StateFiles[i])
	}
	if c := s.Checkpoint; c != nil {
		step, about := string(c.Step), string(c.Context)
		text(&step)
		text(&about)
		c.Step, c.Context = valid(step), valid(about)
	}
	return err
}

// valid returns text as JSON: unchanged, or as a string if a number became a token.
func valid(text string) json.RawMessage {
	if json.Valid([]byte(text)) {
		return json.RawMessage(text)
	}
	b, err := json.Marshal(text)
	if err != nil { // cannot happen: strings have a JSON form
		panic(err)
	}
	return b
}
