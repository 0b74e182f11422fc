package mcpserver

import (
	"sync"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/execution/question"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver/wire"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
)

// shownQuestions records when clients received the questions of tasks, and the questions that they
// returned without the answer of a person. These are not shown to clients again: one without a person would
// return them for ever. Its zero value is empty.
type shownQuestions struct {
	mu  sync.Mutex
	all map[taskQuestion]shownQuestion
}

type taskQuestion struct{ execution, question string }

type shownQuestion struct {
	first    time.Time
	returned bool
}

// show returns the questions of an execution that a client may be shown, and records that it is.
func (s *shownQuestions) show(execution string, open []question.Question) (shown []question.Question) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if s.all == nil {
		s.all = map[taskQuestion]shownQuestion{}
	}
	for key, q := range s.all {
		if now.Sub(q.first) > question.TTL {
			delete(s.all, key)
		}
	}
	for _, q := range open {
		key := taskQuestion{execution, q.ID}
		if s.all[key].first.IsZero() {
			s.all[key] = shownQuestion{first: now}
		}
		if !s.all[key].returned {
			shown = append(shown, q)
		}
	}
	return shown
}

// personal returns the answers of a person in the replies to open questions, and records the questions
// with other replies.
func (s *shownQuestions) personal(execution string, open []question.Question, replies map[string]wire.Reply) question.Answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	given := question.Answer{}
	for _, q := range open {
		r, ok := replies[q.ID]
		if !ok {
			continue
		}
		key := taskQuestion{execution, q.ID}
		if r = r.After(time.Since(s.all[key].first)); r.Action != wire.Cancel {
			given[q.ID] = tool.Reply{Action: tool.Action(r.Action), Content: r.Content}
			delete(s.all, key)
		} else if at, ok := s.all[key]; ok {
			at.returned = true
			s.all[key] = at
		}
	}
	return given
}
