package session

import (
	"bytes"
	"context"
	"encoding/json"
	"sync"
)

// maxRendered bounds the cache, in bytes.
const maxRendered = 8 << 20

// rendered caches the tasks as the projection shows them, with tokens in place of private
// values. A session's file is rewritten with every step, and its earlier tasks do not change.
type rendered struct {
	mu    sync.Mutex
	tasks map[renderedKey][]byte
	bytes int
}

// renderedKey identifies a task. A session that is deleted and begun again counts its tasks from
// 1 again, but has another start.
type renderedKey struct {
	session string
	started int64
	number  int
}

func (r *rendered) find(key renderedKey) []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.tasks[key]
}

func (r *rendered) put(key renderedKey, task []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.tasks == nil || r.bytes+len(task) > maxRendered {
		r.tasks, r.bytes = map[renderedKey][]byte{}, 0
	}
	r.tasks[key] = task
	r.bytes += len(task)
}

// renderTask returns the JSON of a step as an element of the tasks in a session's file.
func (l *shown) renderTask(ctx context.Context, id string, s Step) ([]byte, error) {
	t := s.task()
	for _, text := range []*string{&t.Description, &t.Code, &t.Result, &t.Output} {
		if err := l.redactText(ctx, id, text); err != nil {
			return nil, err
		}
	}
	return indented(t, "    ")
}

// redactHead replaces private values in s, which has no tasks, by tokens.
func (l *shown) redactHead(ctx context.Context, s *Session) error {
	for i := range s.StateFiles {
		if err := l.redactText(ctx, s.ID, &s.StateFiles[i]); err != nil {
			return err
		}
	}
	if s.Checkpoint == nil {
		return nil
	}
	for _, to := range []*json.RawMessage{&s.Checkpoint.Step, &s.Checkpoint.Context} {
		text := string(*to)
		if err := l.redactText(ctx, s.ID, &text); err != nil {
			return err
		}
		*to = valid(text)
	}
	return nil
}

func (l *shown) redactText(ctx context.Context, id string, text *string) (err error) {
	if l.cfg.Redact != nil {
		*text, err = l.cfg.Redact(ctx, id, *text)
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

// indented returns the JSON of v for people. All lines but the first begin with prefix.
func indented(v any, prefix string) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent(prefix, "  ")
	err := enc.Encode(v)
	return bytes.TrimRight(b.Bytes(), "\n"), err
}

// noTasks is the line of a session's file without tasks. A text cannot contain it, since line
// ends are escaped in JSON.
var noTasks = []byte("\n  \"tasks\": [],\n")

// withTasks returns the file of a session: its JSON without tasks, and the tasks.
func withTasks(head []byte, tasks [][]byte) []byte {
	size := len(head)
	for _, t := range tasks {
		size += len(t) + 8
	}
	before, after, _ := bytes.Cut(head, noTasks)
	file := append(make([]byte, 0, size+32), before...)
	file = append(file, "\n  \"tasks\": ["...)
	for i, t := range tasks {
		if i > 0 {
			file = append(file, ',')
		}
		file = append(append(file, "\n    "...), t...)
	}
	if len(tasks) > 0 {
		file = append(file, "\n  "...)
	}
	return append(append(append(file, "],\n"...), after...), '\n')
}
