package policy

// Counted is how many counters are kept.
func (p *Policy) Counted() (windows, executions int) {
	return len(p.used.windows), len(p.used.recent) + len(p.used.older)
}
