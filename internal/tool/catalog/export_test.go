package catalog

// Looks reports whether a viewer can look at the catalog now, without waiting for Update.
func (c *Catalog) Looks() bool {
	if !c.allowing.TryRLock() {
		return false
	}
	c.allowing.RUnlock()
	return true
}
