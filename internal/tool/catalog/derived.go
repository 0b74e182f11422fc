package catalog

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"hash/crc32"
	"os"
	"path/filepath"
	"time"

	fastjson "github.com/segmentio/encoding/json"

	"github.com/sandpiper-mcp/sandpiper/internal/rawjson"
	"github.com/sandpiper-mcp/sandpiper/internal/store/durable"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog/search"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/codegen"
)

// The files of Config.Derived. Both are used by the program that wrote them only, since another one may
// compute something else, and neither is synced: a damaged one has no effect.
const (
	serversFile = "servers.json" // summaries
	indexFile   = "index"        // the search index of a snapshot: its key, the index, and their checksum
)

// minSaved is the number of tools from which the index is stored: that of fewer is built in milliseconds.
const minSaved = 1000

// summaries are what was computed from listings.
type summaries struct {
	Program string              `json:"program"`
	Servers map[string]*summary `json:"servers"` // by the name of the file of the listing
}

// summary is what was computed from the listing of one server. It is used before the file was read if the file
// seems unchanged, and afterwards if it has the same content.
type summary struct {
	Size     int64     `json:"size"`
	Changed  int64     `json:"changed"` // modification time, Unix nanoseconds
	Sum      []byte    `json:"sum"`
	Legacy   bool      `json:"legacy,omitempty"`
	Listed   time.Time `json:"listed"`
	Category string    `json:"category"`
	Topics   []string  `json:"topics"`
}

// is reports whether the summary is that of a file with this sum.
func (m *summary) is(sum [sha256.Size]byte) bool { return m != nil && bytes.Equal(m.Sum, sum[:]) }

// fill sets what was computed from a listing.
func (m *summary) fill(l *listing) {
	l.category.set(m.Category)
	l.topics.set(m.Topics)
}

// readSummaries returns the summaries that this program has stored.
func readSummaries(dir string) map[string]*summary {
	if dir == "" {
		return nil
	}
	b, err := os.ReadFile(filepath.Join(dir, serversFile))
	var s summaries
	if err != nil || !rawjson.Valid(b) {
		return nil
	}
	if _, err := fastjson.Parse(b, &s, fastjson.ZeroCopy); err != nil || s.Program == "" || s.Program != codegen.ProgramID() {
		return nil
	}
	return s.Servers
}

// settled is how long a listing is unchanged before its summary is stored: the time of a file that is written
// again sooner may stay the same.
const settled = 2 * time.Second

// storeSummaries stores the summaries of listings in the directory derived, if they are not. dir is that of the
// listings.
func storeSummaries(dir, derived string, listings map[string]*listing) error {
	all := summaries{codegen.ProgramID(), readSummaries(derived)}
	if all.Servers == nil {
		all.Servers = map[string]*summary{}
	}
	changed := false
	for server, l := range listings {
		if l == nil || time.Since(l.file.changed) < settled {
			continue
		}
		if m := all.Servers[l.file.name]; !m.is(l.file.sum) || m.Changed != l.file.changed.UnixNano() {
			all.Servers[l.file.name] = summarize(server, l)
			changed = true
		}
	}
	for name := range all.Servers { // of other configurations, which may still be used
		if _, err := os.Stat(filepath.Join(dir, name)); os.IsNotExist(err) {
			delete(all.Servers, name)
			changed = true
		}
	}
	if !changed {
		return nil
	}
	b, err := json.Marshal(all)
	if err != nil {
		return err
	}
	return durable.WriteFile(filepath.Join(derived, serversFile), b)
}

func summarize(server string, l *listing) *summary {
	return &summary{l.file.size, l.file.changed.UnixNano(), l.file.sum[:], l.Legacy, l.Listed, l.inferCategory(server),
		l.topicsOf(server, newIsVerb())}
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// storedIndex is the index of the snapshot with a key; nil if none is stored.
type storedIndex struct {
	key   [sha256.Size]byte
	index *search.Index
}

func readIndex(dir string) (stored storedIndex) {
	if dir == "" {
		return storedIndex{}
	}
	b, err := os.ReadFile(filepath.Join(dir, indexFile))
	n := len(b) - crc32.Size
	if err != nil || n < len(stored.key) || crc32.Checksum(b[:n], castagnoli) != binary.LittleEndian.Uint32(b[n:]) {
		return storedIndex{}
	}
	copy(stored.key[:], b)
	if stored.index, err = search.Decode(b[len(stored.key):n]); err != nil {
		return storedIndex{}
	}
	return stored
}

func writeIndex(dir string, key [sha256.Size]byte, x *search.Index) error {
	b := append(key[:], search.Encode(x)...)
	return durable.WriteFile(filepath.Join(dir, indexFile), binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli)))
}
