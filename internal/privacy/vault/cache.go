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
type disclosure struct {
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

	young generation
	old   generation // what was young before
	timer *time.Timer
}

const (
	cacheFor  = 5 * time.Minute
	cacheSize = 16 << 20 // bytes of a generation, about
	entrySize = 300      // of an entry without its value
)

// generation is what was used within some time.
type generation struct {
	values      map[Value]*entry
	tokens      map[Token]*entry
	disclosures map[disclosure]bool
	size        int
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
func (c *cache) hasDisclosure(e *entry, session string) bool {
	g := disclosure{session, e.record}
	if c.old.disclosures[g] && !c.young.disclosures[g] {
		c.putDisclosure(g)
	}
	return c.young.disclosures[g] || c.old.disclosures[g]
}

// shown tells whether the session was given the entry, so that nothing has to be
// remembered if it is given it again.
func (c *cache) isDisclosed(e *entry, session string) bool {
	return e.everywhere || session != "" && c.hasDisclosure(e, session)
}

// good tells whether the entry may be restored for the session.
func (c *cache) mayRestore(e *entry, session string) bool {
	return session == "" || c.isDisclosed(e, session)
}

func (c *cache) put(e *entry) {
	c.reserve(entrySize + len(e.value.Text))
	if c.young.values == nil {
		c.young.values, c.young.tokens = make(map[Value]*entry), make(map[Token]*entry)
	}
	c.young.values[e.value], c.young.tokens[e.token] = e, e
}

func (c *cache) putDisclosure(g disclosure) {
	c.reserve(len(g.session) + 50)
	if c.young.disclosures == nil {
		c.young.disclosures = make(map[disclosure]bool)
	}
	c.young.disclosures[g] = true
}

// turn makes room for something of a size.
func (c *cache) reserve(size int) {
	if c.young.size+size > cacheSize {
		c.young, c.old = generation{}, c.young
	}
	c.young.size += size
	if c.timer == nil {
		c.timer = time.AfterFunc(cacheFor, c.age)
	}
}

func (c *cache) age() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.young, c.old = generation{}, c.young
	c.timer = nil
	if c.old.size > 0 {
		c.timer = time.AfterFunc(cacheFor, c.age)
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
			c.putDisclosure(disclosure{session, e.record})
		}
	}
}

// begin forgets everything that is of another epoch.
func (c *cache) setEpoch(epoch int64, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.epoch != epoch {
		c.young, c.old = generation{}, generation{}
	}
	c.epoch, c.checked = epoch, now
}

// doubtful returns the epoch if it has to be held against the database, else 0.
func (c *cache) epochToCheck(now time.Time) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if since := now.Sub(c.checked); since >= 0 && since < epochCheckEvery {
		return 0
	}
	return c.epoch
}

// checkEvery is how often memory is held against the database.
const epochCheckEvery = time.Second

// fresh forgets keys and values if the vault was shredded by another process.
func (v *Vault) checkEpoch(ctx context.Context) error {
	now := v.cfg.Now()
	was := v.cache.epochToCheck(now)
	if was == 0 {
		return nil
	}
	var epoch int64
	err := v.cfg.DB.View(ctx, func(tx *store.Tx) (err error) {
		epoch, _, err = newestKeys(ctx, tx)
		return err
	})
	switch {
	case err != nil:
		return err
	case epoch != was:
		v.clear()
	default:
		v.cache.setEpoch(epoch, now)
	}
	return nil
}

// forget forgets keys and values.
func (v *Vault) clear() {
	v.index.clear()
	v.cache.setEpoch(0, time.Time{})
	v.keyRing.drop(v.keyRing.get())
}
