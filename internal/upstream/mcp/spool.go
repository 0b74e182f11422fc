package mcp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/sandpiper-mcp/sandpiper/internal/rawjson"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream/spool"
)

// message collects the bytes of an incoming message. Up to the limit of the interceptor it
// is in memory; a longer one is written to a spooled file if a request accepts it, and
// otherwise only its beginning and its end are kept.
type message struct {
	t    *interceptor
	data []byte // the message; its beginning if it is too large for memory
	tail []byte // its end if it is too large for memory, otherwise nil
	file *spool.File

	counted bool // in interceptor.unclaimed
}

// Write implements io.Writer and returns no error.
func (m *message) Write(p []byte) (int, error) {
	if m.tail == nil && len(m.data)+len(p) <= m.t.max {
		if !m.counted && len(m.data)+len(p) > largeMessage {
			m.counted = true
			m.t.unclaimed.begin(m, m.t.max, 2*m.t.max)
		}
		if len(m.data)+len(p) > cap(m.data) { // append would grow by a quarter and copy three times as much
			m.data = slices.Grow(m.data, max(len(p), len(m.data)))
		}
		m.data = append(m.data, p...)
		return len(p), nil
	}
	if m.tail == nil {
		m.processed()
		if m.t.acceptsLarge() {
			m.file = m.t.spool.Create()
			m.spoolPart(m.data)
		}
		m.data, m.tail = bytes.Clone(m.data[:min(peekSize, len(m.data))]), bytes.Clone(m.data[max(0, len(m.data)-peekSize):])
		if len(m.data) < peekSize {
			m.data = append(m.data, p[:min(len(p), peekSize-len(m.data))]...)
		}
	}
	m.spoolPart(p)
	m.tail = append(m.tail, p...)
	m.tail = append([]byte{}, m.tail[max(0, len(m.tail)-peekSize):]...)
	return len(p), nil
}

// spoolPart appends to the file. If that fails, the message is discarded like one that no
// request accepts.
func (m *message) spoolPart(p []byte) {
	if m.file == nil {
		return
	}
	if _, err := m.file.Write(p); err != nil {
		m.t.log.Warn("an answer of an upstream server could not be stored", "error", err)
		m.file.Close()
		m.file = nil
	}
}

// processed records that the message is not in memory any more, or counted as an answer.
func (m *message) processed() {
	if m.counted {
		m.t.unclaimed.end(m)
	}
}

// discard releases the file of a message that is not processed.
func (m *message) discard() {
	if m.file != nil {
		m.file.Close()
		m.file = nil
	}
}

// readLine reads the next line into m.
func (m *message) readLine(r *bufio.Reader) error {
	for {
		part, err := r.ReadSlice('\n')
		_, _ = m.Write(part)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return err
		}
	}
}

// acceptsLarge reports whether a pending request accepts an answer that is too large for
// memory.
func (t *inFlight) acceptsLarge() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, a := range t.pending {
		if a != nil && a.large {
			return true
		}
	}
	return false
}

// receiveLarge processes a message that is too large for memory, and returns what to pass
// to the SDK. id is the request that the connection answers, 0 if it answers any.
func (t *interceptor) receiveLarge(m *message, id int64) [][]byte {
	if m.file == nil {
		return t.refuseLarge(m, id)
	}
	data, err := m.file.Content()
	if err != nil {
		return t.refuseLarge(m, id)
	}
	e, ok := parseEnvelope(data)
	if !ok || !utf8.Valid(data) {
		if id == 0 {
			id, _ = t.findRequest(m.data, m.tail)
		}
		if id != 0 {
			m.discard()
			return [][]byte{t.fail(id, ErrMalformed)}
		}
		return t.refuseLarge(m, id)
	}
	t.mu.Lock()
	a := t.pending[e.id()]
	if a == nil || !a.large || e.Method != "" || e.Result == nil || isInputRequired(e.Result) {
		t.mu.Unlock()
		return t.refuseLarge(m, id)
	}
	defer t.mu.Unlock()
	t.received = true
	a.file = m.file
	if pass := t.handleResponse(e, data); pass != nil {
		return [][]byte{pass}
	}
	return nil
}

// refuseLarge discards a message that is too large for memory, and fails the request that
// the connection answers.
func (t *interceptor) refuseLarge(m *message, id int64) [][]byte {
	m.discard()
	if id != 0 {
		return [][]byte{t.fail(id, ErrTooLarge)}
	}
	return t.handleTooLarge(m.data, m.tail)
}

// closeFile releases the answer of a request if it was too large for memory, or was not claimed.
func (t *interceptor) closeFile(a *request) {
	t.unclaimed.end(a)
	t.mu.Lock()
	defer t.mu.Unlock()
	if a.file != nil {
		a.answer = nil
		a.file.Close()
		a.file = nil
	}
}

// storeLarge passes the content of an answer that is too large for memory to c.Store: its
// structured content, or its only text.
func (t *interceptor) storeLarge(ctx context.Context, c tool.Call, answer json.RawMessage) (tool.Result, error) {
	m, ok := rawjson.Members(answer, "content", "structuredContent", "isError", "_meta")
	if !ok {
		return tool.Result{}, fmt.Errorf("%w: the result is no object", ErrMalformed)
	}
	if m[2] != nil && string(m[2]) != "false" && string(m[2]) != "null" {
		return tool.Result{}, &tool.Failure{Ref: c.Ref, Message: fmt.Sprintf("the tool failed with an answer of %d bytes", len(answer))}
	}
	if m[1] != nil && string(m[1]) != "null" {
		res := tool.Result{Structured: m[1], Meta: m[3]}
		if res.IsWrapped() {
			res.As = tool.AsWrapped
		}
		v, _ := res.Value()
		return store(ctx, c, v)
	}
	text, err := onlyText(m[0])
	if err != nil {
		return tool.Result{}, err
	}
	file := t.spool.Create()
	if file == nil {
		return tool.Result{}, ErrTooLarge
	}
	defer file.Close()
	if err := rawjson.UnquoteTo(file, text); err != nil {
		return tool.Result{}, fmt.Errorf("%w: %w", ErrTooLarge, err)
	}
	data, err := file.Content()
	if err != nil {
		return tool.Result{}, fmt.Errorf("%w: %w", ErrTooLarge, err)
	}
	return store(ctx, c, data)
}

func store(ctx context.Context, c tool.Call, data []byte) (tool.Result, error) {
	stored, err := c.Store(ctx, data)
	if err != nil {
		err = &tool.NotKept{Err: err}
	}
	return tool.Result{File: stored}, err
}

// onlyText returns the JSON string of the text in a list of one text block.
func onlyText(list []byte) (text []byte, err error) {
	blocks := 0
	if len(list) > 0 && list[0] == '[' {
		err = rawjson.EachItem(list, func(item []byte) bool {
			m, ok := rawjson.Members(item, "type", "text")
			if blocks++; ok && string(m[0]) == `"text"` {
				text = m[1]
			}
			return blocks < 2
		})
	}
	if err != nil || blocks != 1 || len(text) == 0 || text[0] != '"' {
		return nil, fmt.Errorf("%w: it is no single text", ErrTooLarge)
	}
	return text, nil
}
