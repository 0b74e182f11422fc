package catalog

import (
	"slices"
	"time"
)

// Overview is what is known of the servers without reading the definitions of their tools.
type Overview struct {
	Servers []Outline // by name
	Topics  []string  // words for the objects of the connected tools, such as contacts
}

// Outline is a part of a Server.
type Outline struct {
	Name, Module, Category string
	Connected, Legacy      bool
	Listed                 time.Time // zero if it was never listed
}

// OverviewFor returns an overview of what a viewer may see. It does not wait until the stored listings were
// read, unless that viewer may use only some of the tools of a server.
func OverviewFor(c *Catalog, v Viewer) Overview {
	c.allowing.RLock()
	s := c.outline.Load() // with allowing locked, so that it is of the same configuration as Allow
	var allow []*Allow
	if s != nil && c.cfg.Allow != nil {
		allow = c.cfg.Allow(v)
	}
	c.allowing.RUnlock()
	if allow = append(allow, v.Only); s == nil || slices.ContainsFunc(allow, (*Allow).someTools) {
		return overview(c.For(v))
	}
	for _, a := range allow {
		s = s.Only(a)
	}
	return overview(s)
}

func overview(s *Snapshot) Overview {
	o := Overview{Topics: s.topics()}
	for _, v := range s.Servers {
		o.Servers = append(o.Servers, Outline{v.Name, v.Module, v.Category, v.Connected, v.Legacy, v.Listed})
	}
	return o
}
