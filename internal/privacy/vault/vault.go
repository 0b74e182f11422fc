// Package vault keeps what tokens stand for: a value goes in and a token comes
// out, and who was given the token gets the value back.
//
// The words: a value is personal data with its type, exactly as it was written,
// its surface; a token is "[EMAIL_k7q2m9x4d3w8n5rt]", a type and an id; a record
// is a value in the database, sealed. Given is who was shown a token: a session,
// or everybody in the tenant if there was no session. The same value has the same
// token within a tenant, and means nothing to another.
//
// An id is 80 bits of HMAC-SHA-256 with the id key, of type and canonical form, so
// that nothing can be computed from it. Another surface of the same canonical form
// has a longer id. Records are sealed with AES-256-GCM and the data key, each
// bound to its tenant, type and id; both keys lie in the database, wrapped by a
// Master, which does not.
//
// A Vault is safe for concurrent use, and any number of processes may have one for
// the same database. What Tokenize returned is on disk. That another process has
// shredded the vault is noticed within a second, all else at once.
//
// The package finds no personal data and decides nothing about who may see it; it
// writes no record of what was restored.
package vault

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect"
	"github.com/sandpiper-mcp/sandpiper/internal/store"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

// Tables is the first migration of the vault. Times are Unix milliseconds. A row
// of vault_records without encrypted has expired; it stays for some time, so that no
// other surface gets its id.
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
`

// Value is something that is not to be shown.
type Value struct {
	Type   detect.Type
	Text   string // the surface
	Number bool   // it stood as a JSON number
}

// Config of a Vault.
type Config struct {
	DB     *store.DB // with Tables in it. Required
	Tenant tenant.ID // whose it is. Required
	Master Master    // wraps the tenant's keys; nil means that every use is refused

	// TTL is how long a value of a type is kept after it was last shown, give or
	// take half of it; "" is for types that are not named; 0 means for ever.
	TTL map[detect.Type]time.Duration

	MaxRecords   int // values that are kept; 0 means 500,000
	MaxNew       int // values taken in an hour; 0 means 50,000
	MaxOnRequest int // values tokenised on request in an hour; 0 means 10,000

	OnNewTokens func(n int) // is told of tokens that are made; nil means that nobody asks

	Now func() time.Time // nil means time.Now
	Log *slog.Logger     // nil means discard
}

// Vault keeps the values of one tenant.
type Vault struct {
	cfg       Config
	index     valueIndex
	cache     cache
	keyRing   openKeys // the tenant's keys
	writeLock mutex    // one of this process writes at a time

	lastWarning struct { // that something is withheld
		sync.Mutex
		at time.Time
	}
	lastSweep struct { // what has expired
		sync.Mutex
		at time.Time
	}
}

// New returns the Vault of a tenant. It does no I/O: keys are opened when they are
// needed, and made with the first value.
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
	return &Vault{cfg: cfg, writeLock: make(mutex, 1), keyRing: openKeys{master: cfg.Master, openLock: make(mutex, 1)}}
}

func orDefault(n, other int) int {
	if n == 0 {
		return other
	}
	return n
}

// maxText bounds a value.
const maxText = 64 << 10

// Tokenize returns the tokens of values, in their order, and remembers that the
// session was given them; session "" gives them to all of the tenant. They are on
// disk when it returns. A value that does not fit into the vault gets
// "[EMAIL_withheld]", which nothing restores.
func (v *Vault) Tokenize(ctx context.Context, session string, values []Value) ([]Token, error) {
	if err := validateTypes(values); err != nil {
		return nil, err
	}
	if err := v.checkEpoch(ctx); err != nil {
		return nil, err
	}
	tokens, missing := v.lookupCached(session, values)
	if len(missing) == 0 {
		return tokens, nil
	}
	settled, err := v.store(ctx, session, missing)
	if err != nil {
		return nil, err
	}
	v.IndexValues(missing) // which Recall might not read at once
	for i, value := range values {
		if tokens[i] == "" {
			tokens[i] = settled[value]
		}
	}
	return tokens, nil
}

func validateTypes(values []Value) error {
	for _, value := range values {
		if !isType(string(value.Type)) {
			return fault.New(fault.Invalid, "%.60q cannot be a type of personal data: use 2 to 32 of A-Z, 0-9 and '_', starting with a letter", string(value.Type))
		}
	}
	return nil
}

// known returns the tokens that are known without asking the database, and the
// values of the others, each once.
func (v *Vault) lookupCached(session string, values []Value) (tokens []Token, missing []Value) {
	now := v.cfg.Now()
	tokens = make([]Token, len(values))
	seen := make(map[Value]bool)
	v.cache.mu.Lock()
	defer v.cache.mu.Unlock()
	for i, value := range values {
		if len(value.Text) > maxText {
			tokens[i] = RedactedToken(value.Type)
		} else if e := v.cache.value(value); e != nil && v.cache.isDisclosed(e, session) && !v.needsNewExpiry(value.Type, e.expires, now) {
			tokens[i] = e.token
		} else if !seen[value] {
			seen[value] = true
			missing = append(missing, value)
		}
	}
	return tokens, missing
}

// due tells whether the time to which a value is kept has to be set anew. To do
// so at every use would be a write for each.
func (v *Vault) needsNewExpiry(t detect.Type, expires int64, now time.Time) bool {
	ttl := v.ttl(t)
	if ttl == 0 || expires == 0 {
		return (ttl == 0) != (expires == 0)
	}
	left := time.UnixMilli(expires).Sub(now)
	return left < ttl/2 || left > ttl
}

func (v *Vault) ttl(t detect.Type) time.Duration {
	if ttl, ok := v.cfg.TTL[t]; ok {
		return ttl
	}
	return v.cfg.TTL[""]
}

// expiry is when a value that is shown now expires, 0 for never.
func (v *Vault) expiry(t detect.Type, now time.Time) int64 {
	if ttl := v.ttl(t); ttl > 0 {
		return now.Add(ttl).UnixMilli()
	}
	return 0
}

// turn is had by one at a time.
type mutex chan struct{}

func (t mutex) lock(ctx context.Context) error {
	select {
	case t <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (t mutex) unlock() { <-t }
