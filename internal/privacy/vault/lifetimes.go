package vault

import (
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect"
)

// lifetimes is Config.TTL.
type lifetimes map[detect.Type]time.Duration

// needNewExpiry reports whether the expiry of a value must be updated. Updating it on
// every use would cost a write each time.
func (l lifetimes) needNewExpiry(t detect.Type, expires int64, now time.Time) bool {
	ttl := l.ttl(t)
	if ttl == 0 || expires == 0 {
		return (ttl == 0) != (expires == 0)
	}
	left := time.UnixMilli(expires).Sub(now)
	return left < ttl/2 || left > ttl
}

func (l lifetimes) ttl(t detect.Type) time.Duration {
	if ttl, ok := l[t]; ok {
		return ttl
	}
	return l[""]
}

// expiry returns when a value that is disclosed now expires, 0 for never.
func (l lifetimes) expiry(t detect.Type, now time.Time) int64 {
	if ttl := l.ttl(t); ttl > 0 {
		return now.Add(ttl).UnixMilli()
	}
	return 0
}
