package access

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/store"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

// migrations create and upgrade the database of keys.
var migrations = []store.Migration{{Number: 1, Name: "keys", SQL: `
CREATE TABLE keys (
	id      TEXT PRIMARY KEY,
	tenant  TEXT NOT NULL,
	name    TEXT NOT NULL,
	hash    BLOB NOT NULL,    -- SHA-256 of the key
	scopes  TEXT NOT NULL,    -- JSON array
	created INTEGER NOT NULL, -- Unix seconds
	expires INTEGER NOT NULL, -- 0 for never
	revoked INTEGER NOT NULL  -- 0 for not revoked
) STRICT;
CREATE INDEX keys_tenant ON keys (tenant);`}}

// Key describes an API key, without its secret.
type Key struct {
	ID      string    `json:"id"` // a part of the key, to name it
	Tenant  tenant.ID `json:"customer_uid"`
	Name    string    `json:"name,omitempty"`
	Scopes  []Scope   `json:"scopes"`
	Created time.Time `json:"created"`
	Expires time.Time `json:"expires,omitzero"` // zero means never
	Revoked time.Time `json:"revoked,omitzero"` // zero means that it is not revoked
}

// Limits of a key.
const (
	maxName = 100
	maxKeys = 1000 // of one tenant that are not revoked
)

// prefix starts every key, so that scanners for secrets recognize it. The rest is the id, '_'
// and 26 random letters and digits with 130 bits: they cannot be guessed, so their hash needs no
// salt and no slow function.
const prefix = "sandpiper_"

// idLength is the number of characters of an id.
const idLength = 10

// Keys stores API keys in a database.
type Keys struct{ db *store.DB }

// OpenKeys opens the database at path, and creates it if it does not exist.
func OpenKeys(ctx context.Context, path string) (*Keys, error) {
	db, err := store.Open(ctx, path, migrations)
	if err != nil {
		return nil, err
	}
	return &Keys{db}, nil
}

// Close closes the database. It is idempotent.
func (k *Keys) Close() error { return k.db.Close() }

// New creates a key of key's tenant with its name, scopes and expiry; its other fields are
// ignored. It returns the key's text, which is stored nowhere.
func (k *Keys) New(ctx context.Context, key Key) (Key, string, error) {
	switch {
	case key.Tenant.IsZero():
		return Key{}, "", fault.New(fault.Invalid, "tenant id is missing")
	case len(key.Name) > maxName:
		return Key{}, "", fault.New(fault.Invalid, "the name of the key has %d bytes, more than %d", len(key.Name), maxName)
	case len(key.Scopes) == 0:
		return Key{}, "", fault.New(fault.Invalid, "the key has no scopes, so no request could use it")
	case !key.Expires.IsZero() && !key.Expires.After(time.Now()):
		return Key{}, "", fault.New(fault.Invalid, "the key would have expired already, at %s", key.Expires.Format(time.DateTime))
	}
	for _, s := range key.Scopes {
		if _, err := ParseScope(string(s)); err != nil {
			return Key{}, "", err
		}
	}
	key.ID, key.Created, key.Revoked = strings.ToLower(rand.Text()[:idLength]), time.Now().UTC().Truncate(time.Second), time.Time{}
	text := prefix + key.ID + "_" + strings.ToLower(rand.Text())
	hash := sha256.Sum256([]byte(text))
	scopes, err := json.Marshal(key.Scopes)
	if err != nil {
		return Key{}, "", err
	}
	err = k.db.Update(ctx, func(tx *store.Tx) error {
		var n int
		if err := tx.QueryRowContext(ctx, `SELECT count(*) FROM keys WHERE tenant = ? AND revoked = 0`, key.Tenant.String()).
			Scan(&n); err != nil {
			return err
		}
		if n >= maxKeys {
			return fault.New(fault.Exhausted, "tenant %q has %d keys already, which is the maximum", key.Tenant, n).
				WithHint("revoke keys that are not used")
		}
		_, err := tx.ExecContext(ctx, `INSERT INTO keys (id, tenant, name, hash, scopes, created, expires, revoked) VALUES (?, ?, ?, ?, `+
			`?, ?, ?, 0)`,
			key.ID, key.Tenant.String(), key.Name, hash[:], string(scopes), key.Created.Unix(), unix(key.Expires))
		return err
	})
	if err != nil {
		return Key{}, "", err
	}
	return key, text, nil
}

func unix(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.Unix()
}

func fromUnix(s int64) time.Time {
	if s == 0 {
		return time.Time{}
	}
	return time.Unix(s, 0).UTC()
}

// List returns the keys of a tenant, or of all tenants for the zero ID, oldest first.
func (k *Keys) List(ctx context.Context, of tenant.ID) (all []Key, err error) {
	err = k.db.View(ctx, func(tx *store.Tx) error {
		rows, err := tx.QueryContext(ctx, `SELECT id, tenant, name, scopes, created, expires, revoked FROM keys
			WHERE tenant = ? OR ? = '' ORDER BY created, id`, of.String(), of.String())
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			key, err := scan(rows.Scan)
			if err != nil {
				return err
			}
			all = append(all, key)
		}
		return rows.Err()
	})
	return all, err
}

// scan reads the columns of a key, and further ones.
func scan(columns func(...any) error, more ...any) (key Key, err error) {
	var uid, scopes string
	var created, expires, revoked int64
	if err := columns(append([]any{&key.ID, &uid, &key.Name, &scopes, &created, &expires, &revoked}, more...)...); err != nil {
		return Key{}, err
	}
	key.Created, key.Expires, key.Revoked = fromUnix(created), fromUnix(expires), fromUnix(revoked)
	if err := json.Unmarshal([]byte(scopes), &key.Scopes); err != nil {
		return Key{}, fault.Wrap(fault.Internal, err, "the database of keys is damaged: the scopes of key %s are not JSON", key.ID)
	}
	key.Tenant, err = tenant.ParseStored(uid)
	return key, err
}

// Revoke revokes a key. It is no error if the key is revoked already.
func (k *Keys) Revoke(ctx context.Context, id string) (Key, error) {
	var key Key
	err := k.db.Update(ctx, func(tx *store.Tx) (err error) {
		if _, err := tx.ExecContext(ctx, `UPDATE keys SET revoked = ? WHERE id = ? AND revoked = 0`, time.Now().Unix(), id); err != nil {
			return err
		}
		key, err = find(ctx, tx, id, new([]byte))
		return err
	})
	if errors.Is(err, sql.ErrNoRows) {
		return Key{}, fault.New(fault.NotFound, "there is no key %.80q", id).WithHint("`sandpiper tenant key list` lists keys by their ids")
	}
	return key, err
}

// Forget deletes all keys of a tenant.
func (k *Keys) Forget(ctx context.Context, of tenant.ID) error {
	return k.db.Update(ctx, func(tx *store.Tx) error {
		_, err := tx.ExecContext(ctx, `DELETE FROM keys WHERE tenant = ?`, of.String())
		return err
	})
}

// find returns a key and its hash.
func find(ctx context.Context, tx *store.Tx, id string, hash *[]byte) (Key, error) {
	return scan(tx.QueryRowContext(ctx, `SELECT id, tenant, name, scopes, created, expires, revoked, hash FROM keys WHERE id = ?`, id).Scan,
		hash)
}

// IsKey reports whether a token has the form of an API key.
func IsKey(token string) bool { return strings.HasPrefix(token, prefix) }

// ErrUnknown is in the chain of the error for credentials that identify no caller.
var ErrUnknown = fault.New(fault.Denied, "unknown token")

// unknown returns an error with the message of ErrUnknown to the client, and a reason for the
// operator.
func unknown(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrUnknown}, args...)...)
}

// refuse returns an ErrUnknown whose message to the client is a reason that concerns the client's
// own credentials only.
func refuse(reason string) error { return fault.Wrap(fault.Denied, ErrUnknown, "%s", reason) }

// Verify returns the identity of a key, or an error that is ErrUnknown. Only the owner of a key
// learns that it has expired or was revoked.
func (k *Keys) Verify(ctx context.Context, text string) (Identity, error) {
	id, _, ok := strings.Cut(strings.TrimPrefix(text, prefix), "_")
	if !ok || !IsKey(text) {
		return Identity{}, unknown("it is not a key")
	}
	var key Key
	var hash []byte
	err := k.db.View(ctx, func(tx *store.Tx) (err error) {
		key, err = find(ctx, tx, id, &hash)
		return err
	})
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return Identity{}, err
	}
	given := sha256.Sum256([]byte(text))
	switch {
	case subtle.ConstantTimeCompare(given[:], hash) != 1:
		return Identity{}, unknown("there is no such key")
	case !key.Revoked.IsZero():
		return Identity{}, refuse("the key is revoked")
	case !key.Expires.IsZero() && !time.Now().Before(key.Expires):
		return Identity{}, refuse("the key has expired")
	}
	return Identity{Tenant: key.Tenant, Scopes: key.Scopes, Expires: key.Expires}, nil
}
