package detect

import (
	"cmp"
	"slices"
)

// maxCluster bounds how many candidates that overlap in a chain are weighed
// against each other; only hostile text has more.
const maxCluster = 64

// Resolve joins findings of several sources in text: it returns what stands of
// them, in order, without overlaps. No letter or digit that one of found covers is
// left uncovered. Findings that do not lie in the text are left out. It reorders
// found.
func Resolve(found []Finding, text string) []Finding {
	found = slices.DeleteFunc(found, func(f Finding) bool { return f.Start < 0 || f.End > len(text) || f.Start >= f.End })
	done, _ := resolve(found, text, 0, 0, len(text))
	return done
}

// resolve settles overlaps among candidates of which all that begin before
// final are known, and returns what stands and what has to wait for more. What
// begins before end lies in something that stands already. The text begins at
// base in what candidates refer to.
func resolve(found []Finding, text string, base, end, final int) (done, wait []Finding) {
	slices.SortFunc(found, byStart)
	for len(found) > 0 {
		n, reach := 1, found[0].End
		for n < len(found) && n < maxCluster && found[n].Start < reach && found[n].Start < final {
			reach = max(reach, found[n].End)
			n++
		}
		if found[0].Start >= final || reach > final && n < maxCluster {
			return done, found
		}
		for _, f := range settle(behindOf(end, found[:n]), text, base) {
			done, end = append(done, f), f.End
		}
		found = found[n:]
	}
	return done, nil
}

// behindOf returns what of candidates lies behind end.
func behindOf(end int, cluster []Finding) []Finding {
	cluster = slices.Clone(cluster)
	for i := range cluster {
		cluster[i].Start = max(cluster[i].Start, end)
	}
	return slices.DeleteFunc(cluster, func(f Finding) bool { return f.Start >= f.End })
}

// settle returns what stands of one cluster, in order.
//
// Of two candidates for the same bytes the better score stands; of two where one
// lies inside the other the outer one, so that nothing of it is shown; of two
// that overlap in part the better score. What ties is settled by length, then by
// place, then by name. A candidate inside one that lost is weighed again, and a
// loser of which a letter or digit would be shown is joined to what it lost to.
func settle(cluster []Finding, text string, base int) []Finding {
	if len(cluster) < 2 {
		return cluster
	}
	var stand, lost []Finding
	for left := cluster; len(left) > 0; {
		outer := slices.DeleteFunc(slices.Clone(left), func(f Finding) bool { return slices.ContainsFunc(left, f.inside) })
		slices.SortFunc(outer, byRank)
		for _, f := range outer {
			switch i := slices.IndexFunc(stand, f.overlaps); {
			case i < 0:
				stand = append(stand, f)
			case f.Type != Email || stand[i].Type != URLCredentials: // the host behind a password is no part of an address
				lost = append(lost, f)
			}
		}
		left = slices.DeleteFunc(left, func(f Finding) bool {
			return slices.Contains(outer, f) || slices.ContainsFunc(stand, func(o Finding) bool { return o.covers(f) })
		})
	}
	slices.SortFunc(stand, byStart)
	for _, f := range lost {
		if f.shows(stand, text, base) {
			stand = join(stand, f)
		}
	}
	return stand
}

// inside reports whether f lies in a longer o.
func (f Finding) inside(o Finding) bool { return o.covers(f) && o.End-o.Start > f.End-f.Start }

func (f Finding) covers(o Finding) bool   { return f.Start <= o.Start && o.End <= f.End }
func (f Finding) overlaps(o Finding) bool { return f.Start < o.End && o.Start < f.End }

// shows reports whether f has a letter or digit that is in none of stand, which is
// in order.
func (f Finding) shows(stand []Finding, text string, base int) bool {
	at := f.Start
	for _, o := range stand {
		if o.overlaps(f) {
			if wordy(text[at-base : max(at, o.Start)-base]) {
				return true
			}
			at = max(at, o.End)
		}
	}
	return at < f.End && wordy(text[at-base:f.End-base])
}

func wordy(text string) bool {
	for i := range len(text) {
		if class[text[i]]&(alnum|high) != 0 {
			return true
		}
	}
	return false
}

// join makes one finding of f and those of stand that it overlaps. It is of the
// type of the best of these.
func join(stand []Finding, f Finding) []Finding {
	var best *Finding
	rest := make([]Finding, 0, len(stand))
	for _, o := range stand {
		if !o.overlaps(f) {
			rest = append(rest, o)
			continue
		}
		if best == nil || byRank(o, *best) < 0 {
			best = &o
		}
		f.Start, f.End = min(f.Start, o.Start), max(f.End, o.End)
	}
	if best != nil {
		f.Type, f.Score = best.Type, best.Score
	}
	rest = append(rest, f)
	slices.SortFunc(rest, byStart)
	return rest
}

func byStart(a, b Finding) int {
	return cmp.Or(cmp.Compare(a.Start, b.Start), byRank(a, b))
}

func byRank(a, b Finding) int {
	return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(b.End-b.Start, a.End-a.Start),
		cmp.Compare(a.Start, b.Start), cmp.Compare(a.Type, b.Type))
}
