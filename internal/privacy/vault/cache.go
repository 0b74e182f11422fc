package vault

import (
	"sync"
	"time"
)

// entry is a record that is in the database. It is immutable.
type entry struct {
	record     int64
	token      Token
	value      Value
	expires    int64 // 0 for never
	everywhere bool
}

// disclosure records that a record was disclosed to a session.
type disclosure struct {
	session string
	record  int64
}

// cache holds recently used records, so that a text whose values are cached needs no
// database access. It holds plaintext, so its entries are bounded in time as well:
// unused entries are dropped after one to two times cacheFor.
type cache struct {
	mu      sync.Mutex
	epoch   int64     // of the keys that the tokens were created with; 0: none
	checked time.Time // when the epoch was last compared with the database

	young generation
	old   generation // the previous generation
	timer *time.Timer
}

const (
	cacheFor  = 5 * time.Minute
	cacheSize = 16 << 20 // bytes of a generation, approximately
	entrySize = 300      // bytes of an entry without its value, approximately
)

// generation holds what was used within one period.
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

// renew moves an entry to the young generation.
func (c *cache) renew(e *entry) *entry {
	if e != nil {
		c.put(e)
	}
	return e
}

// hasDisclosure reports whether an entry is known to be disclosed to a session. False
// may be wrong.
func (c *cache) hasDisclosure(e *entry, session string) bool {
	g := disclosure{session, e.record}
	if c.old.disclosures[g] && !c.young.disclosures[g] {
		c.putDisclosure(g)
	}
	return c.young.disclosures[g] || c.old.disclosures[g]
}

// isDisclosed reports whether an entry is known to be disclosed to a session, so that
// nothing has to be written when it is disclosed again.
func (c *cache) isDisclosed(e *entry, session string) bool {
	return e.everywhere || session != "" && c.hasDisclosure(e, session)
}

// mayRestore reports whether an entry may be restored for the session.
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

// reserve adds size to the young generation, or begins a new generation if it is full.
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

// add adds records of an epoch that are disclosed to a session.
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

// setEpoch sets the epoch and removes everything of another one.
func (c *cache) setEpoch(epoch int64, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.epoch != epoch {
		c.young, c.old = generation{}, generation{}
	}
	c.epoch, c.checked = epoch, now
}

// epochToCheck returns the epoch if it must be compared with the database, else 0.
func (c *cache) epochToCheck(now time.Time) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if since := now.Sub(c.checked); since >= 0 && since < epochCheckEvery {
		return 0
	}
	return c.epoch
}

// epochCheckEvery is how often the epoch is compared with the database.
const epochCheckEvery = time.Second
