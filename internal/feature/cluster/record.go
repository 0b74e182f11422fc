package cluster

import (
	"archive/tar"
	"maps"
	"slices"
	"time"

	"github.com/superfly/ltx"

	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

// head is the head of an entry. Its body is the LTX file, if there are pages.
type head struct {
	Format   int             `json:"format"` // 1
	Tenant   tenant.ID       `json:"tenant"`
	Node     string          `json:"node"`              // name of the data directory that wrote it
	Time     time.Time       `json:"time"`              // of the last change in it, or later
	Deleted  bool            `json:"deleted,omitempty"` // the tenant was deleted
	Base     uint64          `json:"base"`              // number of the last snapshot, itself or before
	Since    int64           `json:"since,omitempty"`   // bytes of entries since that
	TXID     ltx.TXID        `json:"txid"`              // of the database after it; 0 if there is none
	Checksum ltx.Checksum    `json:"checksum"`
	Pages    bool            `json:"pages,omitempty"`
	Put      map[string]file `json:"put,omitempty"`  // files that have changed; all in a snapshot
	Gone     []string        `json:"gone,omitempty"` // files that were deleted
}

// format is the version of entries.
const format = 1

func (h head) pos() ltx.Pos { return ltx.Pos{TXID: h.TXID, PostApplyChecksum: h.Checksum} }

// file is a file, link or directory of a tenant. Its path is as in home.Original.
type file struct {
	Type     byte              `json:"type"` // as in a tar header
	Mode     int64             `json:"mode"`
	Time     time.Time         `json:"time,omitzero"`
	Link     string            `json:"link,omitempty"`
	Size     int64             `json:"size,omitempty"`    // of the content
	Records  map[string]string `json:"records,omitempty"` // of a sparse file
	Contents []string          `json:"contents,omitempty"`
}

func newFile(h *tar.Header) file {
	return file{Type: h.Typeflag, Mode: h.Mode, Time: h.ModTime, Link: h.Linkname, Size: h.Size, Records: h.PAXRecords}
}

// header returns the tar header of a file with a path.
func (f file) header(path string) tar.Header {
	return tar.Header{
		Typeflag:   f.Type,
		Name:       path,
		Mode:       f.Mode,
		ModTime:    f.Time,
		Linkname:   f.Link,
		Size:       f.Size,
		PAXRecords: f.Records,
		Format:     tar.FormatPAX,
	}
}

// equal reports whether two files are the same.
func (f file) equal(o file) bool {
	return f.Type == o.Type && f.Mode == o.Mode && f.Time.Equal(o.Time) && f.Link == o.Link && f.Size == o.Size &&
		maps.Equal(f.Records, o.Records) && slices.Equal(f.Contents, o.Contents)
}

// apply changes files to those after the entry.
func (h head) apply(files map[string]file) {
	for _, path := range h.Gone {
		delete(files, path)
	}
	maps.Copy(files, h.Put)
}
