package vault

import (
	"context"
	"crypto/cipher"
	"crypto/rand"
	"errors"
	"sync"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/store"
	"github.com/sandpiper-mcp/sandpiper/internal/store/sealed"
)

const keySize = 32

// keys are a tenant's decrypted keys. They are immutable.
type keys struct {
	epoch   int64 // number of the id key
	id      []byte
	current int64 // number of the data key that encrypts
	data    map[int64]cipher.AEAD
}

// openKeys holds the keys after they were opened.
type openKeys struct {
	openLock mutex // allows one request to the master at a time

	mu     sync.Mutex
	keys   *keys
	master Master
}

// errStale is returned when another process has changed the keys.
var errStale = errors.New("the vault keys have changed since they were opened")

// wrapped is a key as it is stored in the database.
type wrapped struct {
	number      int64
	use, master string
	key         []byte
}

const useID, useData = "id", "data"

// keys returns the tenant's keys. If there are none it creates them, or returns nil.
func (v *Vault) keys(ctx context.Context, create bool) (*keys, error) {
	if err := v.keyRing.openLock.lock(ctx); err != nil {
		return nil, err
	}
	defer v.keyRing.openLock.unlock()
	if k := v.keyRing.get(); k != nil {
		return k, nil
	}
	m, err := v.master()
	if err != nil {
		return nil, err
	}
	rows, err := v.wrappedKeys(ctx)
	if err == nil && len(rows) == 0 && create {
		rows, err = v.makeKeys(ctx, m)
	}
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	k, err := v.unwrap(ctx, m, rows)
	if err != nil {
		return nil, err
	}
	v.keyRing.set(k)
	v.cache.setEpoch(k.epoch, v.cfg.Now()) // after set: clear uses the reverse order
	return k, nil
}

func (v *Vault) master() (Master, error) {
	v.keyRing.mu.Lock()
	defer v.keyRing.mu.Unlock()
	if v.keyRing.master == nil {
		return nil, fault.New(fault.Unavailable, "the vault has no master key").
			WithHint("set pii.key or pii.key_command in the configuration; values are neither tokenized nor restored without it")
	}
	return v.keyRing.master, nil
}

func (v *Vault) wrappedKeys(ctx context.Context) (rows []wrapped, err error) {
	err = v.cfg.DB.View(ctx, func(tx *store.Tx) error {
		rows, err = readKeys(ctx, tx)
		return err
	})
	return rows, err
}

// readKeys reads the keys and fails if there are records without keys.
func readKeys(ctx context.Context, tx *store.Tx) ([]wrapped, error) {
	rows, err := tx.QueryContext(ctx, "SELECT number, use, master, wrapped FROM vault_keys ORDER BY number")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var all []wrapped
	uses := map[string]bool{}
	for rows.Next() {
		var w wrapped
		if err := rows.Scan(&w.number, &w.use, &w.master, &w.key); err != nil {
			return nil, err
		}
		all, uses[w.use] = append(all, w), true
	}
	if err := rows.Err(); err != nil || uses[useID] && uses[useData] {
		return all, err
	}
	var orphans bool
	err = tx.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM vault_records)").Scan(&orphans)
	if err == nil && (orphans || len(all) > 0) {
		err = fault.New(fault.Internal, "the vault keys are missing from the database").
			WithHint("restore the tenant's database from a backup, or shred the vault to start with an empty one")
	}
	return nil, err
}

// makeKeys creates the first keys, unless another process does so first. It calls the
// master before the transaction, because the master may be remote.
func (v *Vault) makeKeys(ctx context.Context, m Master) (rows []wrapped, err error) {
	id, err := v.newKey(ctx, m, useID)
	if err != nil {
		return nil, err
	}
	data, err := v.newKey(ctx, m, useData)
	if err != nil {
		return nil, err
	}
	err = v.cfg.DB.Update(ctx, func(tx *store.Tx) error {
		if rows, err = readKeys(ctx, tx); err != nil || len(rows) > 0 {
			return err
		}
		for _, w := range []wrapped{id, data} {
			if err := w.insert(ctx, tx); err != nil {
				return err
			}
		}
		rows, err = readKeys(ctx, tx)
		return err
	})
	return rows, err
}

// newKey returns a new random key, wrapped.
func (v *Vault) newKey(ctx context.Context, m Master, use string) (wrapped, error) {
	key := make([]byte, keySize)
	_, _ = rand.Read(key) // never fails
	sealed, err := m.Wrap(ctx, key, v.keyAAD(use))
	return wrapped{use: use, master: m.ID(), key: sealed}, err
}

func (w wrapped) insert(ctx context.Context, tx *store.Tx) error {
	_, err := tx.ExecContext(ctx, "INSERT INTO vault_keys (use, master, wrapped) VALUES (?, ?, ?)", w.use, w.master, w.key)
	return err
}

// keyAAD returns the additional data that binds a wrapped key to its tenant and use.
func (v *Vault) keyAAD(use string) []byte {
	return []byte("sandpiper vault key\x00" + v.cfg.Tenant.String() + "\x00" + use)
}

// unwrap unwraps keys with the master that wrapped them.
func (v *Vault) unwrap(ctx context.Context, m Master, rows []wrapped) (*keys, error) {
	k := &keys{data: make(map[int64]cipher.AEAD)}
	for _, w := range rows {
		key, err := v.unwrapOne(ctx, m, w)
		if err != nil {
			return nil, err
		}
		if w.use == useID {
			k.epoch, k.id = w.number, key
			continue
		}
		if k.data[w.number], err = sealed.NewAEAD(key); err != nil {
			return nil, err
		}
		k.current = w.number
	}
	return k, nil
}

func (v *Vault) unwrapOne(ctx context.Context, m Master, w wrapped) ([]byte, error) {
	if w.master != m.ID() {
		again := "pii.key to " + w.master
		if w.master == commandID {
			again = "pii.key_command"
		}
		return nil, fault.New(fault.Unavailable, "the vault keys were wrapped with master key %s, but the configuration names %s", w.master, m.ID()).
			WithHint("set %s again; no data is lost, and no other key is accepted", again)
	}
	key, err := m.Unwrap(ctx, w.key, v.keyAAD(w.use))
	if err == nil && len(key) != keySize {
		err = fault.New(fault.Internal, "a vault key has %d bytes, want %d", len(key), keySize)
	}
	return key, err
}

func (o *openKeys) get() *keys {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.keys
}

func (o *openKeys) set(k *keys) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.keys = k
}

// drop removes stale keys, unless they were replaced already.
func (o *openKeys) drop(k *keys) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.keys == k {
		o.keys = nil
	}
}

// check returns errStale if the database has other keys.
func (k *keys) check(ctx context.Context, tx *store.Tx) error {
	epoch, current, err := newestKeys(ctx, tx)
	if err == nil && (epoch != k.epoch || current != k.current) {
		err = errStale
	}
	return err
}

// newestKeys returns the numbers of the id key and of the current data key, 0 if there
// is none.
func newestKeys(ctx context.Context, tx *store.Tx) (epoch, current int64, err error) {
	err = tx.QueryRowContext(ctx, `SELECT coalesce(max(number) FILTER (WHERE use = 'id'), 0), coalesce(max(number) FILTER (WHERE use = 'data'), 0)
		FROM vault_keys`).Scan(&epoch, &current)
	return epoch, current, err
}
