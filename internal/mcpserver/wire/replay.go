package wire

import (
	"bytes"
	"container/list"
	"context"
	"encoding/json"
	"iter"
	"slices"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// replays stores the events of open streams before 2026-07-28, for clients that resume
// one. It is a mcp.EventStore.
//
// It stores the newest events, limited in number and size per connection and in total.
// The SDK's store is limited in bytes only and keeps every stream, one per request,
// until the connection ends.
type replays struct {
	perConnection, all bounds

	mu          sync.Mutex
	connections map[string]*sent  // by id
	owners      map[string]string // of the streams: their connections
	events      list.List         // of *event, oldest first
	bytes       int
}

// bounds are the maximum number of entries, and of bytes if there is more than one.
type bounds struct{ entries, bytes int }

// sent are the stored events of one connection.
type sent struct {
	events  list.List // of *event, oldest first
	bytes   int
	streams map[string]*replay
}

// replay is one stream. It is removed when it is answered and has no stored events.
type replay struct {
	next     int // index of its next event
	kept     int // events
	answered bool
	needs    *needs // of callers that resume it; nil if any caller may
}

type event struct {
	connection, stream string
	index              int
	data               []byte
	inAll              *list.Element
}

func newReplays() *replays {
	return &replays{perConnection: bounds{256, 8 << 20}, all: bounds{1 << 16, 64 << 20}, connections: map[string]*sent{},
		owners: map[string]string{}}
}

// Open implements mcp.EventStore. The stream "" is the first of every connection; a
// connection without an id has no stream to resume.
func (r *replays) Open(ctx context.Context, connection, stream string) error {
	if connection == "" {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.connections[connection]
	if c == nil && stream != "" {
		return errGone
	}
	if c == nil {
		c = &sent{streams: map[string]*replay{}}
		r.connections[connection] = c
	}
	c.streams[stream] = &replay{}
	if p, ok := ctx.Value(postKey{}).(*post); ok && stream != "" {
		c.streams[stream].needs = &p.needs
	}
	if stream != "" {
		r.owners[stream] = connection
	}
	return nil
}

// Append implements mcp.EventStore.
func (r *replays) Append(_ context.Context, connection, stream string, data []byte) error {
	r.add(connection, stream, data)
	return nil
}

// add stores an event and returns its index, and whether it is the answer of its stream.
// Events of a removed stream are not stored.
func (r *replays) add(connection, stream string, data []byte) (index int, answer bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.connections[connection]
	if c == nil || c.streams[stream] == nil {
		return 0, false
	}
	s := c.streams[stream]
	e := &event{connection: connection, stream: stream, index: s.next, data: data}
	e.inAll = r.events.PushBack(e)
	c.events.PushBack(e)
	r.bytes += len(data)
	c.bytes += len(data)
	s.next++
	s.kept++
	answer = stream != "" && isResponse(data)
	s.answered = s.answered || answer
	for over(&c.events, c.bytes, r.perConnection) {
		r.drop(c)
	}
	for over(&r.events, r.bytes, r.all) {
		r.drop(r.connections[r.events.Front().Value.(*event).connection])
	}
	return e.index, answer
}

func over(events *list.List, bytes int, most bounds) bool {
	return events.Len() > most.entries || events.Len() > 1 && bytes > most.bytes
}

// drop removes the oldest event of c. The oldest of all is also the oldest of its
// connection.
func (r *replays) drop(c *sent) {
	e := c.events.Remove(c.events.Front()).(*event)
	r.events.Remove(e.inAll)
	r.bytes -= len(e.data)
	c.bytes -= len(e.data)
	s := c.streams[e.stream]
	if s.kept--; s.kept == 0 && s.answered {
		delete(c.streams, e.stream)
		delete(r.owners, e.stream)
	}
}

// connectionOf returns the connection of a stream, or "".
func (r *replays) connectionOf(stream string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.owners[stream]
}

// needsOf returns what a token needs to resume a stream.
func (r *replays) needsOf(connection, stream string) *needs {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c := r.connections[connection]; c != nil && c.streams[stream] != nil {
		return c.streams[stream].needs
	}
	return nil
}

// unanswered returns what a token needs to end the requests of a connection; nil if that is not known of one.
func (r *replays) unanswered(connection string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := []string{}
	if c := r.connections[connection]; c != nil {
		for _, s := range c.streams {
			if s.answered || s.needs == nil {
				continue
			}
			scopes := s.needs.all()
			if scopes == nil {
				return nil
			}
			all = append(all, scopes...)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// isResponse reports whether a message is the answer to a request.
func isResponse(message []byte) bool {
	d := json.NewDecoder(bytes.NewReader(message))
	for first, _ := d.Token(); first != nil && d.More(); {
		switch key, _ := d.Token(); key {
		case "result", "error":
			return true
		case "jsonrpc", "id":
		default:
			return false
		}
		if _, err := d.Token(); err != nil {
			return false
		}
	}
	return false
}

// After implements mcp.EventStore.
func (r *replays) After(_ context.Context, connection, stream string, index int) iter.Seq2[[]byte, error] {
	all, err := r.after(connection, stream, index)
	return func(yield func([]byte, error) bool) {
		if err != nil {
			yield(nil, err)
			return
		}
		for _, data := range all {
			if !yield(data, nil) {
				return
			}
		}
	}
}

func (r *replays) after(connection, stream string, index int) (all [][]byte, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.connections[connection]
	if c == nil || c.streams[stream] == nil {
		return nil, mcp.ErrEventsPurged
	}
	s := c.streams[stream]
	if index+1 < s.next-s.kept {
		return nil, mcp.ErrEventsPurged
	}
	for at := c.events.Front(); at != nil; at = at.Next() {
		if e := at.Value.(*event); e.stream == stream && e.index > index {
			all = append(all, e.data)
		}
	}
	return all, nil
}

// SessionClosed implements mcp.EventStore.
func (r *replays) SessionClosed(_ context.Context, connection string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.connections[connection]
	if c == nil {
		return nil
	}
	for at := c.events.Front(); at != nil; at = at.Next() {
		r.events.Remove(at.Value.(*event).inAll)
	}
	r.bytes -= c.bytes
	for stream := range c.streams {
		delete(r.owners, stream)
	}
	delete(r.connections, connection)
	return nil
}
