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
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

const keySize = 32

// keys are a tenant's decrypted keys. They are immutable.
type keys struct {
	epoch   int64 // number of the id key
	id      []byte
	current int64 // number of the data key that encrypts
	data    map[int64]cipher.AEAD
}

// keyRing opens the keys of a tenant and holds them afterwards.
type keyRing struct {
	db       *database
	tenant   tenant.ID
	opened   func(*keys) // is called after keys were opened
	openLock mutex       // allows one request to the master at a time

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

// open returns the tenant's keys. If there are none it creates them, or returns nil.
func (r *keyRing) open(ctx context.Context, create bool) (*keys, error) {
	if err := r.openLock.lock(ctx); err != nil {
		return nil, err
	}
	defer r.openLock.unlock()
	if k := r.get(); k != nil {
		return k, nil
	}
	m, err := r.currentMaster()
	if err != nil {
		return nil, err
	}
	rows, err := r.stored(ctx)
	if err == nil && len(rows) == 0 && create {
		rows, err = r.create(ctx, m)
	}
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	k, err := r.unwrap(ctx, m, rows)
	if err != nil {
		return nil, err
	}
	r.set(k)
	r.opened(k) // after set: Vault.clear uses the reverse order
	return k, nil
}

// maxAttempts limits how often a transaction is repeated because another process
// changed the keys.
const maxAttempts = 5

// with runs f with the tenant's keys, and again with new keys if they were stale.
func (r *keyRing) with(ctx context.Context, create bool, f func(*keys) error) error {
	for range maxAttempts {
		k, err := r.open(ctx, create)
		if err != nil || k == nil {
			return err
		}
		if err := f(k); !errors.Is(err, errStale) {
			return err
		}
		r.drop(k)
	}
	return fault.Wrap(fault.Unavailable, errStale, "the vault keys are being changed; try again")
}

func (r *keyRing) currentMaster() (Master, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.master == nil {
		return nil, fault.New(fault.Unavailable, "the vault has no master key").
			WithHint("set pii.key or pii.key_command in the configuration; values are neither tokenized nor restored without it")
	}
	return r.master, nil
}

// stored returns the keys in the database.
func (r *keyRing) stored(ctx context.Context) (rows []wrapped, err error) {
	err = r.db.View(ctx, func(tx *store.Tx) error {
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

// create creates the first keys, unless another process does so first. It calls the
// master before the transaction, because the master may be remote.
func (r *keyRing) create(ctx context.Context, m Master) (rows []wrapped, err error) {
	id, err := r.newKey(ctx, m, useID)
	if err != nil {
		return nil, err
	}
	data, err := r.newKey(ctx, m, useData)
	if err != nil {
		return nil, err
	}
	err = r.db.Update(ctx, func(tx *store.Tx) error {
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
func (r *keyRing) newKey(ctx context.Context, m Master, use string) (wrapped, error) {
	key := make([]byte, keySize)
	_, _ = rand.Read(key) // never fails
	sealed, err := m.Wrap(ctx, key, r.additionalData(use))
	return wrapped{use: use, master: m.ID(), key: sealed}, err
}

func (w wrapped) insert(ctx context.Context, tx *store.Tx) error {
	_, err := tx.ExecContext(ctx, "INSERT INTO vault_keys (use, master, wrapped) VALUES (?, ?, ?)", w.use, w.master, w.key)
	return err
}

// additionalData returns the additional data that binds a wrapped key to its tenant and use.
func (r *keyRing) additionalData(use string) []byte {
	return []byte("sandpiper vault key\x00" + r.tenant.String() + "\x00" + use)
}

// unwrap unwraps keys with the master that wrapped them.
func (r *keyRing) unwrap(ctx context.Context, m Master, rows []wrapped) (*keys, error) {
	k := &keys{data: make(map[int64]cipher.AEAD)}
	for _, w := range rows {
		key, err := r.unwrapOne(ctx, m, w)
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

func (r *keyRing) unwrapOne(ctx context.Context, m Master, w wrapped) ([]byte, error) {
	if w.master != m.ID() {
		setting := "pii.key to " + w.master
		if w.master == commandID {
			setting = "pii.key_command"
		}
		return nil, fault.New(fault.Unavailable, "the vault keys were wrapped with master key %s, but the configuration names %s", w.master,
			m.ID()).
			WithHint("set %s again; no data is lost, and no other key is accepted", setting)
	}
	key, err := m.Unwrap(ctx, w.key, r.additionalData(w.use))
	if err == nil && len(key) != keySize {
		err = fault.New(fault.Internal, "a vault key has %d bytes, want %d", len(key), keySize)
	}
	return key, err
}

func (r *keyRing) get() *keys {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.keys
}

func (r *keyRing) set(k *keys) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.keys = k
}

// setMaster makes another master wrap the keys that are made from now on.
func (r *keyRing) setMaster(m Master) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.master = m
}

// drop removes stale keys, unless they were replaced already.
func (r *keyRing) drop(k *keys) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.keys == k {
		r.keys = nil
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
