package home

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/home/quota"
	"github.com/sandpiper-mcp/sandpiper/internal/home/workspace"
	"github.com/sandpiper-mcp/sandpiper/internal/store/durable"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

// Settings are the settings of one tenant's data.
type Settings struct {
	Quota   workspace.Quota // of the workspace, checked before the host writes; zero means no limit
	Results Results         // retention of result files; zero means unlimited
	Quotas  quota.Limits    // in periods of time
	Modules string          // key of the generated modules that the tenant sees; "" means none
	// Selection identifies the servers and tools that the tenant may use; equal for equal ones.
	Selection string
}

// settings returns the settings of a tenant in a tier.
func (t opener) settings(id tenant.ID, tier string) Settings {
	if t.cfg.Settings != nil {
		return t.cfg.Settings(id, tier)
	}
	return Settings{Quota: t.cfg.Quota, Results: t.cfg.Results, Modules: t.cfg.Modules}
}

// tierEvery bounds how long a home is used with its previous tier.
const tierEvery = time.Second

// Tier returns the tier that was stored for a tenant, "" if none was.
func (t *pool) Tier(id tenant.ID) (string, error) {
	t.mu.Lock()
	s := t.homes[id]
	open := s != nil && !s.tierRead.IsZero()
	if open && time.Since(s.tierRead) < tierEvery {
		defer t.mu.Unlock()
		return s.parts.tier, nil
	}
	t.mu.Unlock()
	began := time.Now()
	tier, err := t.layout.of(id).readTier()
	if open && err == nil && tier == s.parts.tier { // otherwise the next Acquire retires the home
		t.mu.Lock()
		s.tierRead = began
		t.mu.Unlock()
	}
	return tier, err
}

// SetTier stores the tier of a tenant that has data; "" stores none. Processes that have opened
// its home use it within a second, for new requests.
func (t Directory) SetTier(id tenant.ID, tier string) error {
	if _, err := t.Find(id); err != nil {
		return err
	}
	path := t.layout.of(id).tier
	if tier != "" {
		return dirFault(durable.WriteFile(path, []byte(tier)))
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return dirFault(err)
	}
	return nil
}

func (p paths) readTier() (string, error) {
	b, err := os.ReadFile(p.tier)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", readFault(tierFile, err)
	}
	return strings.TrimSpace(string(b)), nil
}

// retireChanged retires the open home of a tenant whose tier has changed, so that it is opened
// with the settings of the new one.
func (t *pool) retireChanged(id tenant.ID) error {
	t.mu.Lock()
	s := t.homes[id]
	if s == nil || s.tierRead.IsZero() || time.Since(s.tierRead) < tierEvery {
		t.mu.Unlock()
		return nil
	}
	s.tierRead = time.Now()
	t.mu.Unlock()
	tier, err := t.layout.of(id).readTier()
	if err != nil || tier == s.parts.tier {
		return err
	}
	return t.retire(s)
}
