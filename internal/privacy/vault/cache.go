package vault

import (
	"context"
	"sync"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/store"
)

// entry is a record that is known to be in the database. It does not change.
type entry struct {
	record     int64
	token      Token
	value      Value
	expires    int64 // 0 for never
	everywhere bool
}

// grant says that a session was given a record.
type grant struct {
	session string
	record  int64
}

// cache remembers what was used lately, so that a text whose values are known
// costs no look at the database. It holds values in the clear, so it is bounded
// in time as well: what nobody used goes after one to two times cacheFor.
type cache struct {
	mu      sync.Mutex
	epoch   int64     // of the keys that the tokens were made with, 0 for none
	checked time.Time // when the database was last seen to have that epoch

	young  generation
	old    generation // what was young before
	ageing *time.Timer
}

const (
	cacheFor  = 5 * time.Minute
	cacheSize = 16 << 20 // bytes of a generation, about
	entrySize = 300      // of an entry without its value
)

// generation is what was used within some time.
type generation struct {
	values map[Value]*entry
	tokens map[Token]*entry
	grants map[grant]bool
	size   int
}

func (c *cache) value(v Value) *entry {
	if e := c.young.values[v]; e != nil {
		return e
	}
	return c.renew(c.old.values[v])
}

func (c *cache) token(t Token) *entry {
	if e := c.young.tokens[t]; e != nil {
		return e
	}
	return c.renew(c.old.tokens[t])
}

// renew makes an entry young again.
func (c *cache) renew(e *entry) *entry {
	if e != nil {
		c.put(e)
	}
	return e
}

// granted tells whether a session was given an entry; false may be wrong.
func (c *cache) granted(e *entry, session string) bool {
	g := grant{session, e.record}
	if c.old.grants[g] && !c.young.grants[g] {
		c.grant(g)
	}
	return c.young.grants[g] || c.old.grants[g]
}

// shown tells whether the session was given the entry, so that nothing has to be
// remembered if it is given it again.
func (c *cache) shown(e *entry, session string) bool {
	return e.everywhere || session != "" && c.granted(e, session)
}

// good tells whether the entry may be restored for the session.
func (c *cache) good(e *entry, session string) bool {
	return session == "" || c.shown(e, session)
}

func (c *cache) put(e *entry) {
	c.turn(entrySize + len(e.value.Text))
	if c.young.values == nil {
		c.young.values, c.young.tokens = make(map[Value]*entry), make(map[Token]*entry)
	}
	c.young.values[e.value], c.young.tokens[e.token] = e, e
}

func (c *cache) grant(g grant) {
	c.turn(len(g.session) + 50)
	if c.young.grants == nil {
		c.young.grants = make(map[grant]bool)
	}
	c.young.grants[g] = true
}

// turn makes room for something of a size.
func (c *cache) turn(size int) {
	if c.young.size+size > cacheSize {
		c.young, c.old = generation{}, c.young
	}
	c.young.size += size
	if c.ageing == nil {
		c.ageing = time.AfterFunc(cacheFor, c.age)
	}
}

func (c *cache) age() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.young, c.old = generation{}, c.young
	c.ageing = nil
	if c.old.size > 0 {
		c.ageing = time.AfterFunc(cacheFor, c.age)
	}
}

// add remembers records of an epoch, given to a session.
func (c *cache) add(epoch int64, session string, entries []*entry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.epoch != epoch {
		return
	}
	for _, e := range entries {
		c.put(e)
		if session != "" && !e.everywhere {
			c.grant(grant{session, e.record})
		}
	}
}

// begin forgets everything that is of another epoch.
func (c *cache) begin(epoch int64, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.epoch != epoch {
		c.young, c.old = generation{}, generation{}
	}
	c.epoch, c.checked = epoch, now
}

// doubtful returns the epoch if it has to be held against the database, else 0.
func (c *cache) doubtful(now time.Time) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if since := now.Sub(c.checked); since >= 0 && since < checkEvery {
		return 0
	}
	return c.epoch
}

// checkEvery is how often memory is held against the database.
const checkEvery = time.Second

// fresh forgets keys and values if the vault was shredded by another process.
func (v *Vault) fresh(ctx context.Context) error {
	now := v.cfg.Now()
	was := v.cache.doubtful(now)
	if was == 0 {
		return nil
	}
	var epoch int64
	err := v.cfg.DB.View(ctx, func(tx *store.Tx) (err error) {
		epoch, _, err = newest(ctx, tx)
		return err
	})
	switch {
	case err != nil:
		return err
	case epoch != was:
		v.forget()
	default:
		v.cache.begin(epoch, now)
	}
	return nil
}

// forget forgets keys and values.
func (v *Vault) forget() {
	v.memory.forget()
	v.cache.begin(0, time.Time{})
	v.open.drop(v.open.get())
}
