package catalog

import (
	"os"
	"sync"

	"github.com/sandpiper-mcp/sandpiper/internal/tool/codegen"
)

// Warm reads the listings and the search index, or builds it, for the next search.
func Warm(c *Catalog) {
	c.mu.Lock()
	stored := c.stored
	c.mu.Unlock()
	var beside sync.WaitGroup
	if stored != nil {
		beside.Go(func() { stored() })
	}
	c.Now().search()
	beside.Wait()
}

// Store stores what was computed from the listings, for the next process, unless it is stored already.
func Store(c *Catalog) error {
	if c.cfg.Derived == "" || codegen.ProgramID() == "" {
		return nil
	}
	now := c.Now()
	if err := os.MkdirAll(now.derived, 0o700); err != nil {
		return err
	}
	if err := storeSummaries(c.cfg.Dir, now.derived, now.listings); err != nil {
		return err
	}
	if x := now.search(); len(now.Tools) >= minSaved && !now.isStored.Swap(true) {
		return writeIndex(now.derived, now.indexKey(), x)
	}
	return nil
}
