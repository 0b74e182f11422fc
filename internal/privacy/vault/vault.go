// Package vault stores the values that tokens map to. Tokenize takes a value and
// returns a token; Restore returns the value to a session that the token was disclosed
// to.
//
// Terms: a value is personal data or a secret with its type, exactly as it was
// written, its surface; a token is "[EMAIL_k7q2m9x4]", a type and an id; a
// record is a value in the database, encrypted. A token is disclosed to a session, or
// to all of the tenant if there was no session. Within a tenant, the same value has
// the same token; a token of one tenant is unknown to another.
//
// An id is 40 bits of HMAC-SHA-256, with the id key, of type and canonical form, so
// that the value cannot be computed from it; those of earlier versions have 80 bits and
// stay valid. A second surface of the same canonical form, and a value whose id is taken,
// gets a longer id. An id can be found by trying very many: CountGuesses limits that. Records are encrypted with
// AES-256-GCM and the data key, with
// tenant, type and id as additional data. Both keys are in the database, wrapped by a
// Master, which is not.
//
// A Vault is safe for concurrent use, and several processes may open the same
// database. What Tokenize returned is on disk. A Vault notices within one second that
// another process has shredded the database; every other change takes effect
// immediately.
//
// A Vault tokenizes and restores. Its key ring opens and wraps the keys, its records read and decrypt
// the rows, its Index finds values in text, and its Exceptions are the operator's.
//
// The package detects no personal data, does not decide who may see it, and records no
// restores.
package vault

import (
	"log/slog"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect"
	"github.com/sandpiper-mcp/sandpiper/internal/store"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

// Tables creates the tables of the vault. Times are Unix milliseconds. A row of
// vault_records whose column encrypted is NULL has expired; it is kept for some time to
// reserve its id.
const Tables = `
CREATE TABLE vault_keys (
	number  INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
	use     TEXT    NOT NULL, -- 'id' or 'data'
	master  TEXT    NOT NULL, -- what it is wrapped with
	wrapped BLOB    NOT NULL
) STRICT;
CREATE TABLE vault_records (
	number     INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
	type       TEXT    NOT NULL,
	id         TEXT    NOT NULL,
	mark       BLOB    NOT NULL, -- keyed hash of the surface
	key        INTEGER NOT NULL, -- number of the data key
	encrypted  BLOB,          -- NULL if erased
	expires    INTEGER,          -- NULL for never
	everywhere INTEGER NOT NULL, -- 1 if it was given without a session
	UNIQUE (type, id)
) STRICT;
CREATE INDEX vault_expiring ON vault_records (expires) WHERE encrypted IS NOT NULL AND expires IS NOT NULL;
CREATE INDEX vault_expired ON vault_records (number) WHERE encrypted IS NULL;
CREATE TABLE vault_disclosures (
	record  INTEGER NOT NULL REFERENCES vault_records (number) ON DELETE CASCADE,
	session TEXT    NOT NULL,
	PRIMARY KEY (record, session)
) STRICT, WITHOUT ROWID;
CREATE TABLE vault_counts (
	name  TEXT    NOT NULL PRIMARY KEY, -- 'records', 'disclosed', 'new', 'requested'
	since INTEGER NOT NULL,             -- the beginning of the hour that is counted, 0 for all time
	n     INTEGER NOT NULL
) STRICT;
CREATE TABLE vault_exceptions (
	id      TEXT    NOT NULL PRIMARY KEY,
	type    TEXT    NOT NULL, -- '' for every type
	tool    TEXT    NOT NULL, -- pattern, '' for every text
	key     TEXT    NOT NULL, -- '' for every key
	mark    BLOB,             -- keyed hash of the value, NULL for every value
	created INTEGER NOT NULL
) STRICT;
`

// Value is personal data or a secret.
type Value struct {
	Type   detect.Type
	Text   string // the surface
	Number bool   // it was a JSON number
}

// Config of a Vault.
type Config struct {
	DB     *store.DB // contains Tables; required
	Tenant tenant.ID // owner of the data; required
	Master Master    // wraps the tenant's keys; nil: every use is refused

	// TTL is how long a value of a type is kept after it was last disclosed, plus or minus
	// half of it; "" applies to types that are not listed; 0: forever.
	TTL map[detect.Type]time.Duration

	MaxRecords   int // values kept; 0: 500,000
	MaxNew       int // new values in an hour; 0: 50,000
	MaxOnRequest int // values tokenized on request in an hour; 0: 10,000

	OnRefused   func(key string) // is called with the key of a limit for each refusal; nil: not called
	OnNewTokens func(n int)      // is called with the number of new tokens; nil: not called

	Now func() time.Time // nil: time.Now
	Log *slog.Logger     // nil: discard
}

// Vault stores the values of one tenant.
type Vault struct {
	Exceptions *Exceptions
	Index      *Index

	cfg       Config
	db        *database
	ring      *keyRing
	records   *records
	cache     *cache
	lifetimes lifetimes
	guesses   guesses
	warnings  interval // log messages about redacted values
	sweeps    interval // deletions of expired values
}

// New returns the Vault of a tenant. It does no I/O: keys are opened on first use and
// created with the first value.
func New(cfg Config) *Vault {
	cfg.MaxRecords = orDefault(cfg.MaxRecords, 500_000)
	cfg.MaxNew = orDefault(cfg.MaxNew, 50_000)
	cfg.MaxOnRequest = orDefault(cfg.MaxOnRequest, 10_000)
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	cfg.Log = cfg.Log.With("tenant", cfg.Tenant.String())
	db, memory := &database{DB: cfg.DB, writeLock: make(mutex, 1)}, &cache{}
	ring := &keyRing{
		db:       db,
		tenant:   cfg.Tenant,
		opened:   func(k *keys) { memory.setEpoch(k.epoch, cfg.Now()) },
		openLock: make(mutex, 1),
		master:   cfg.Master,
	}
	stored := &records{db: db, ring: ring, tenant: cfg.Tenant, now: cfg.Now, log: cfg.Log}
	return &Vault{
		Exceptions: &Exceptions{db: db, ring: ring, now: cfg.Now, log: cfg.Log},
		Index:      &Index{records: stored, most: cfg.MaxRecords},
		cfg:        cfg,
		db:         db,
		ring:       ring,
		records:    stored,
		cache:      memory,
		lifetimes:  cfg.TTL,
	}
}

func orDefault(n, other int) int {
	if n == 0 {
		return other
	}
	return n
}

// maxText limits the size of a value in bytes.
const maxText = 64 << 10
