package catalog

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	fastjson "github.com/segmentio/encoding/json"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/rawjson"
	"github.com/sandpiper-mcp/sandpiper/internal/store/durable"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
)

// listing is the stored listing of one server.
type listing struct {
	Title        string       `json:"title,omitempty"`
	Version      string       `json:"version,omitempty"`
	Instructions string       `json:"instructions,omitempty"`
	Resources    bool         `json:"resources,omitempty"`
	Prompts      bool         `json:"prompts,omitempty"`
	Legacy       bool         `json:"legacy,omitempty"` // see Listing
	Listed       time.Time    `json:"listed"`
	Tools        []storedTool `json:"tools"`           // sorted by name
	Notes        []string     `json:"notes,omitempty"` // see Listing

	NewTexts *texts `json:"held_texts,omitempty"` // new texts of a server that is reviewed; nil if they are accepted
	Accepted bool   `json:"accepted,omitempty"`   // everything of a reviewed server was accepted once

	file     file
	category inferred[string]   // see inferCategory
	topics   inferred[[]string] // see topicsOf
}

// file identifies the content of the file of a listing.
type file struct {
	name    string
	size    int64
	changed time.Time
	sum     [sha256.Size]byte
}

// inferred is what is computed from a listing on demand, or was by another process.
type inferred[T any] struct {
	compute sync.Once
	value   T
}

func (i *inferred[T]) once(compute func() T) T {
	i.compute.Do(func() { i.value = compute() })
	return i.value
}

func (i *inferred[T]) set(value T) { i.once(func() T { return value }) }

// texts are the texts of a server for models, except its tools.
type texts struct {
	Title        string `json:"title,omitempty"`
	Instructions string `json:"instructions,omitempty"`
}

// storedTool is one tool: its trusted definition, and its current one if that differs.
type storedTool struct {
	Trusted     tool.Definition  `json:"trusted"`
	Quarantined *tool.Definition `json:"held,omitempty"`
	New         bool             `json:"new,omitempty"` // it was never trusted: Trusted has no more than its name
}

// apply compares a new listing with the trusted definitions.
func (l *listing) apply(received Listing, review bool) Change {
	var c Change
	before := map[string]storedTool{}
	for _, k := range l.Tools {
		before[k.Trusted.Tool] = k
	}
	l.Tools = nil
	for _, d := range received.Tools {
		k, known := before[d.Tool]
		delete(before, d.Tool)
		switch {
		case !known && review, k.New:
			c.Quarantined = append(c.Quarantined, d.Tool)
			if !known {
				c.Added = append(c.Added, d.Tool)
			}
			k = storedTool{Trusted: tool.Definition{Ref: d.Ref, Input: json.RawMessage("true")}, Quarantined: &d, New: true}
		case !known:
			k = storedTool{Trusted: d}
			c.Added = append(c.Added, d.Tool)
		case Hash(d) == Hash(k.Trusted):
			c.Modules = c.Modules || k.Quarantined != nil
			k.Quarantined = nil
		default:
			c.Modules = c.Modules || k.Quarantined == nil
			k.Quarantined = &d
			c.Quarantined = append(c.Quarantined, d.Tool)
		}
		l.Tools = append(l.Tools, k)
	}
	for name := range before {
		c.Removed = append(c.Removed, name)
	}
	slices.SortFunc(l.Tools, byName)
	slices.Sort(c.Added)
	slices.Sort(c.Removed)
	slices.Sort(c.Quarantined)
	shown := texts{received.Title, received.Instructions}
	if l.NewTexts = nil; review && shown != (texts{l.Title, l.Instructions}) {
		l.NewTexts = &shown
		received.Title, received.Instructions = l.Title, l.Instructions
	}
	c.Modules = c.Modules || len(c.Added)+len(c.Removed) > 0 || l.Title != received.Title || l.Instructions != received.Instructions ||
		l.Resources != received.Resources || l.Prompts != received.Prompts
	l.Title, l.Version, l.Instructions = received.Title, received.Version, received.Instructions
	l.Resources, l.Prompts, l.Listed, l.Legacy = received.Resources, received.Prompts, time.Now().UTC(), received.Legacy
	l.Notes = received.Notes
	return c
}

func byName(a, b storedTool) int {
	switch {
	case a.Trusted.Tool < b.Trusted.Tool:
		return -1
	case a.Trusted.Tool > b.Trusted.Tool:
		return 1
	}
	return 0
}

func (l *listing) accept(server string, names []string) (accepted []string, err error) {
	for _, name := range names {
		if !slices.ContainsFunc(l.Tools, func(k storedTool) bool { return k.Trusted.Tool == name }) {
			return nil, fault.New(fault.NotFound, "server %q has no tool %q", server, name).
				WithHint("its quarantined tools: %s", abbreviate(l.quarantined(), 20))
		}
	}
	for i, k := range l.Tools {
		if k.Quarantined == nil || len(names) > 0 && !slices.Contains(names, k.Trusted.Tool) {
			continue
		}
		l.Tools[i] = storedTool{Trusted: *k.Quarantined}
		accepted = append(accepted, k.Trusted.Tool)
	}
	if len(names) == 0 {
		if l.Accepted = true; l.NewTexts != nil {
			l.Title, l.Instructions, l.NewTexts = l.NewTexts.Title, l.NewTexts.Instructions, nil
		}
	}
	return accepted, nil
}

// shown identifies what a person is shown before accept with the same names.
func (l *listing) shown(names []string) string {
	var all []tool.Definition
	for _, k := range l.Tools {
		if k.Quarantined != nil {
			all = append(all, *k.Quarantined)
		}
	}
	return hashShown(all, l.NewTexts, names)
}

// hashShown returns a hash of the definitions of the named tools, in any order, or of all of them with
// the texts of the server if there are no names.
func hashShown(all []tool.Definition, newTexts *texts, names []string) string {
	var parts []string
	for _, d := range all {
		if len(names) == 0 || slices.Contains(names, d.Tool) {
			parts = append(parts, Hash(d))
		}
	}
	slices.Sort(parts)
	if len(names) == 0 && newTexts != nil {
		parts = append(parts, newTexts.Title, newTexts.Instructions)
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%q", parts))
	return hex.EncodeToString(sum[:8])
}

func (l *listing) quarantined() (names []string) {
	for _, k := range l.Tools {
		if k.Quarantined != nil {
			names = append(names, k.Trusted.Tool)
		}
	}
	return names
}

// Hash returns a hash of the whole definition. Definitions with equal hashes are the same
// to a model.
func Hash(d tool.Definition) string {
	b, err := json.Marshal(d)
	if err != nil { // a schema that is not JSON
		b = []byte(fmt.Sprintf("%+v", d))
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// path returns the file of the listing of a server.
func (c *Catalog) path(s Configured) string { return s.path(c.cfg.Dir) }

func (s Configured) path(dir string) string {
	sum := sha256.Sum256([]byte(s.Identity))
	name := url.PathEscape(s.Name)
	return filepath.Join(dir, name[:min(len(name), 100)]+"-"+hex.EncodeToString(sum[:6])+".json")
}

// ListedTools returns the trusted definitions of a server from its last listing in the directory
// of a Catalog, for the completion of a command line: without opening the Catalog, which creates
// the directory. Of a tool that was never trusted it returns the name.
func ListedTools(dir string, s Configured) (all []tool.Definition, err error) {
	l, err := load(s.path(dir), nothingKnown)
	if l == nil || err != nil {
		return nil, err
	}
	for _, t := range l.Tools {
		all = append(all, t.Trusted)
	}
	return all, nil
}

// nothingKnown is for load, and reports that no file is known.
func nothingKnown([sha256.Size]byte) bool { return false }

// load returns nil for a server that was never listed. known reports whether a file with this sum was loaded
// before.
func load(path string, known func(sum [sha256.Size]byte) bool) (*listing, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	b := make([]byte, info.Size())
	if _, err := io.ReadFull(f, b); err != nil { // a file is replaced and never changed
		return nil, err
	}
	l := &listing{file: file{filepath.Base(path), info.Size(), info.ModTime(), sha256.Sum256(b)}}
	if !known(l.file.sum) && !rawjson.Valid(b) { // fastjson recurses without a limit
		return nil, errors.New("the file is not valid JSON")
	}
	if _, err := fastjson.Parse(b, l, fastjson.ZeroCopy); err != nil {
		return nil, err
	}
	return l, nil
}

// save replaces the file atomically.
func (l *listing) save(path string) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false) // keeps schemas byte for byte
	if err := enc.Encode(l); err != nil {
		return fault.Wrap(fault.Invalid, err, "a definition of the server is not valid JSON")
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return writeError(err)
	}
	defer os.Remove(f.Name())
	_, err = f.Write(b.Bytes())
	err = errors.Join(err, f.Sync())
	var info fs.FileInfo
	if err == nil {
		info, err = f.Stat()
	}
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err == nil {
		err = durable.SyncDir(filepath.Dir(path))
	}
	if err != nil {
		return writeError(err)
	}
	l.file = file{filepath.Base(path), info.Size(), info.ModTime(), sha256.Sum256(b.Bytes())}
	return nil
}

func writeError(err error) error {
	return fault.Wrap(fault.Unavailable, err, "write the definitions of the server").
		WithHint("check the disk of the data directory")
}
