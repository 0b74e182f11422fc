// Package sealed encrypts columns of a tenant's database, and the content of files next to it. A Table
// stores small encrypted texts, the bodies, of one kind by name, with limits and expiry.
//
// A ciphertext (AES-256 in GCM with a random nonce) is bound to its owner, its column and the row, for a
// body its kind and name: one that was copied to another place cannot be decrypted there. Names are not
// encrypted. A Cipher and a Table are safe for concurrent use, also by several processes. The package
// derives and stores no keys.
package sealed

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"fmt"
	"strconv"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/store"
)

// KeySize is the size of a key in bytes.
const KeySize = 32

// NewAEAD returns the cipher of a key of KeySize bytes, with a random nonce in each ciphertext.
func NewAEAD(key []byte) (cipher.AEAD, error) {
	if len(key) != KeySize {
		return nil, fmt.Errorf("the key has %d bytes instead of %d", len(key), KeySize)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}

// Cipher encrypts for one owner with one key.
type Cipher struct {
	aead  cipher.AEAD
	owner string
}

// New returns the Cipher of a key of KeySize bytes. The owner, such as a tenant, is bound to each
// ciphertext; "" binds to no owner.
func New(key []byte, owner string) (Cipher, error) {
	aead, err := NewAEAD(key)
	return Cipher{aead, owner}, err
}

// Column is an encrypted column, or the content of files of one kind.
type Column struct {
	Table, Name string
	Keys        []string // columns that identify a row
}

// Seal encrypts the text of a column in the row with these keys, which are texts or integers.
func (b Cipher) Seal(c Column, text []byte, keys ...any) []byte {
	return b.aead.Seal(nil, nil, text, b.bound(c, keys))
}

// Open decrypts what Seal returned for the same place. The error of a damaged ciphertext, or one of
// another key, has no details.
func (b Cipher) Open(c Column, ciphertext []byte, keys ...any) ([]byte, error) {
	return b.aead.Open(nil, nil, ciphertext, b.bound(c, keys))
}

// bound returns the data that binds a ciphertext to its place. Lengths keep adjacent parts apart.
func (b Cipher) bound(c Column, keys []any) []byte {
	if len(keys) != len(c.Keys) {
		panic(fmt.Sprintf("sealed: %s.%s has %d keys, not %d", c.Table, c.Name, len(c.Keys), len(keys)))
	}
	text := []byte("sandpiper")
	for _, part := range [...]string{b.owner, c.Table, c.Name} {
		text = appendPart(text, part)
	}
	for _, key := range keys {
		part, ok := key.(string)
		if !ok {
			part = fmt.Sprint(key)
		}
		text = appendPart(text, part)
	}
	return text
}

func appendPart(text []byte, part string) []byte {
	return append(append(strconv.AppendInt(append(text, 0), int64(len(part)), 10), ' '), part...)
}

// Rekey encrypts columns again with another Cipher. It returns the number of values that are damaged, or
// of another key, which it does not change. It has one row in memory, and the keys of all.
func (b Cipher) Rekey(ctx context.Context, tx *store.Tx, to Cipher, columns ...Column) (damaged int, err error) {
	for _, c := range columns {
		rows, err := c.rows(ctx, tx)
		if err != nil {
			return damaged, err
		}
		for _, keys := range rows {
			ok, err := b.rekeyOne(ctx, tx, to, c, keys)
			if err != nil {
				return damaged, err
			}
			if !ok {
				damaged++
			}
		}
	}
	return damaged, nil
}

// rows returns the keys of the rows that have a value.
func (c Column) rows(ctx context.Context, tx *store.Tx) (all [][]any, err error) {
	rows, err := tx.QueryContext(ctx, fmt.Sprintf("SELECT %s FROM %s WHERE length(%s) > 0", strings.Join(c.Keys, ", "), c.Table, c.Name))
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		keys, into := make([]any, len(c.Keys)), make([]any, len(c.Keys))
		for i := range keys {
			into[i] = &keys[i]
		}
		if err := rows.Scan(into...); err != nil {
			return nil, err
		}
		all = append(all, keys)
	}
	return all, rows.Err()
}

// rekeyOne reports whether the value could be decrypted.
func (b Cipher) rekeyOne(ctx context.Context, tx *store.Tx, to Cipher, c Column, keys []any) (ok bool, err error) {
	where := " WHERE " + strings.Join(c.Keys, " = ? AND ") + " = ?"
	var ciphertext []byte
	if err := tx.QueryRowContext(ctx, "SELECT "+c.Name+" FROM "+c.Table+where, keys...).Scan(&ciphertext); err != nil {
		return false, err
	}
	text, err := b.Open(c, ciphertext, keys...)
	if err != nil {
		return false, nil
	}
	_, err = tx.ExecContext(ctx, "UPDATE "+c.Table+" SET "+c.Name+" = ?"+where, append([]any{to.Seal(c, text, keys...)}, keys...)...)
	return true, err
}
