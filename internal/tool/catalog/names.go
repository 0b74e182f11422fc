package catalog

// IsName reports whether a text is the name or title of a server, tool or category.
// Such a text is not personal data.
func (s *Snapshot) IsName(text string) bool { return s.nameSet()[text] }

func (s *Snapshot) names() map[string]bool {
	all := map[string]bool{}
	for _, v := range s.Servers {
		for _, name := range []string{v.Name, v.Module, v.Title, v.Category} {
			all[name] = true
		}
	}
	for _, t := range s.Tools {
		for _, name := range append([]string{t.Definition.Tool, t.Title, t.Category}, t.Functions...) {
			all[name] = true
		}
	}
	delete(all, "")
	return all
}
