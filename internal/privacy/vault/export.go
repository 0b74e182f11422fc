package vault

import (
	"context"
	"encoding/json"
	"io"
	"time"
	"unicode/utf8"

	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect"
	"github.com/sandpiper-mcp/sandpiper/internal/store"
)

// exported is a line of an export. A value that is not UTF-8 is in Bytes.
type exported struct {
	Token    Token       `json:"token"`
	Type     detect.Type `json:"type"`
	Value    string      `json:"value"`
	Bytes    []byte      `json:"bytes,omitempty"` // base64
	Number   bool        `json:"number,omitempty"`
	Expires  *time.Time  `json:"expires,omitempty"`
	Sessions []string    `json:"sessions,omitempty"` // that it was disclosed to; none: all of the tenant
}

// Export writes all values in plaintext with their tokens, one JSON object per line,
// in the order of their creation. Damaged records are omitted.
func (v *Vault) Export(ctx context.Context, w io.Writer) error {
	out := json.NewEncoder(w)
	out.SetEscapeHTML(false)
	_, err := v.records.pages(ctx, 0, func(entries []*entry) error {
		sessions, err := v.records.sessions(ctx, entries)
		if err != nil {
			return err
		}
		for i, e := range entries {
			if err := out.Encode(e.export(sessions[i])); err != nil {
				return err
			}
		}
		return nil
	})
	return err
}

func (e *entry) export(sessions []string) exported {
	x := exported{Token: e.token, Type: e.value.Type, Value: e.value.Text, Number: e.value.Number, Sessions: sessions}
	if !utf8.ValidString(x.Value) {
		x.Value, x.Bytes = "", []byte(e.value.Text)
	}
	if e.expires != 0 {
		at := time.UnixMilli(e.expires).UTC()
		x.Expires = &at
	}
	return x
}

// sessions returns, for each entry that is not disclosed to all of the tenant, the
// sessions that it is disclosed to.
func (s *records) sessions(ctx context.Context, entries []*entry) (all [][]string, err error) {
	err = s.db.View(ctx, func(tx *store.Tx) error {
		for _, e := range entries {
			var names []string
			if !e.everywhere {
				if names, err = sessionsOf(ctx, tx, e.record); err != nil {
					return err
				}
			}
			all = append(all, names)
		}
		return nil
	})
	return all, err
}

func sessionsOf(ctx context.Context, tx *store.Tx, record int64) (names []string, err error) {
	rows, err := tx.QueryContext(ctx, "SELECT session FROM vault_disclosures WHERE record = ? ORDER BY session", record)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return nil, err
		}
		names = append(names, name)
	}
	return names, rows.Err()
}
