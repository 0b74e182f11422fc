package console

import (
	"net/netip"
	"sync"
	"time"
)

// Limits of wrong tokens from one address: some at once, then one in an interval.
const (
	freeAttempts    = 10
	attemptInterval = 6 * time.Second
	maxAddresses    = 10_000 // that are remembered; then all are forgotten
)

// attempts counts wrong tokens by address, so that guessing is slow. Persons behind one proxy have one
// address.
type attempts struct {
	now func() time.Time

	mu  sync.Mutex
	all map[netip.Prefix]time.Time // when the last wrong token is forgotten
}

func newAttempts(now func() time.Time) attempts {
	return attempts{now: now, all: map[netip.Prefix]time.Time{}}
}

// take counts an attempt as a wrong token before it is verified, so that those of parallel requests
// count too, and returns 0; or how long the address must wait before its next attempt.
func (a *attempts) take(remote string) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.all) >= maxAddresses { // an attacker with so many addresses need not wait anyway
		clear(a.all)
	}
	from, now := networkOf(remote), a.now()
	last := a.all[from]
	if wait := last.Add(-(freeAttempts - 1) * attemptInterval).Sub(now); wait > 0 {
		return wait
	}
	if last.Before(now) {
		last = now
	}
	a.all[from] = last.Add(attemptInterval)
	return 0
}

// undo takes back an attempt whose token was not wrong.
func (a *attempts) undo(remote string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if from := networkOf(remote); !a.all[from].IsZero() {
		a.all[from] = a.all[from].Add(-attemptInterval)
	}
}

// networkOf returns the addresses that one host can use: an IPv4 address, or an IPv6 /64.
func networkOf(remote string) netip.Prefix {
	from, err := netip.ParseAddrPort(remote)
	if err != nil {
		return netip.Prefix{}
	}
	addr, bits := from.Addr().Unmap().WithZone(""), 64
	if addr.Is4() {
		bits = 32
	}
	network, _ := addr.Prefix(bits)
	return network
}
