package mcp

import (
	"sync"
	"time"
)

const (
	// largeMessage is the size from which messages are counted in unclaimed.
	largeMessage = 1 << 20
	// claimWait bounds how long a message is not read because of others.
	claimWait = time.Second
)

// unclaimed counts the bytes of large messages of a connection that are being read, and of large
// answers whose callers have not made room for them. While there are too many, further large
// messages are not read, for claimWait: once for all up to twice as many, and then each. The zero
// value is ready to use.
type unclaimed struct {
	mu    sync.Mutex
	bytes int
	by    map[any]int   // by *message and *request
	freed chan struct{} // closed when bytes decreases; nil if nobody waits
	late  bool          // a message has waited for claimWait, and bytes was not below largeMessage since
}

// begin waits until n more bytes do not exceed most, or are the only ones, and counts them for key.
func (u *unclaimed) begin(key any, n, most int) {
	late := time.NewTimer(claimWait)
	defer late.Stop()
	for expired := false; ; {
		u.mu.Lock()
		u.late = u.late || expired
		if expired || u.bytes == 0 || u.bytes+n <= most || u.late && u.bytes+n <= 2*most {
			u.set(key, n)
			u.mu.Unlock()
			return
		}
		if u.freed == nil {
			u.freed = make(chan struct{})
		}
		freed := u.freed
		u.mu.Unlock()
		select {
		case <-freed:
		case <-late.C:
			expired = true
		}
	}
}

// add counts n bytes for key without waiting.
func (u *unclaimed) add(key any, n int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.set(key, n)
}

// end counts nothing for key any more.
func (u *unclaimed) end(key any) { u.add(key, 0) }

func (u *unclaimed) set(key any, n int) {
	less := n < u.by[key]
	u.bytes += n - u.by[key]
	switch {
	case n == 0:
		delete(u.by, key)
	case u.by == nil:
		u.by = map[any]int{}
		fallthrough
	default:
		u.by[key] = n
	}
	u.late = u.late && u.bytes >= largeMessage
	if less && u.freed != nil {
		close(u.freed)
		u.freed = nil
	}
}
