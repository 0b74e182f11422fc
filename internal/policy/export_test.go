package policy

// Counted returns the number of stored counters.
func (p *Policy) Counted() (windows, executions int) {
	return len(p.used.windows), len(p.used.recent) + len(p.used.older)
}
