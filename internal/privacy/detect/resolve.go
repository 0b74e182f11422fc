package detect

import "slices"

// maxCluster limits the number of overlapping candidates that are compared with each other;
// only hostile text has more.
const maxCluster = 64

// Resolve joins the findings of several sources: it returns them in order, without overlaps.
// Every letter or digit that a finding covers stays covered. Findings outside of the text
// are dropped. It reorders found.
func Resolve(found []Finding, text string) []Finding {
	found = slices.DeleteFunc(found, func(f Finding) bool { return f.Start < 0 || f.End > len(text) || f.Start >= f.End })
	done, _ := resolve(found, text, 0, 0, len(text))
	return done
}

// resolve resolves overlaps of candidates, and returns the findings and the candidates that
// depend on later text. All candidates that begin before final are known; earlier findings
// reach up to end. base is the position of text in the whole.
func resolve(found []Finding, text string, base, end, final int) (done, wait []Finding) {
	slices.SortFunc(found, byStart)
	done = found[:0] // a cluster has at least as many candidates as findings
	for len(found) > 0 {
		n, reach := 1, found[0].End
		for n < len(found) && n < maxCluster && found[n].Start < reach && found[n].Start < final {
			reach = max(reach, found[n].End)
			n++
		}
		if found[0].Start >= final || reach > final && n < maxCluster {
			return done, found
		}
		for _, f := range resolveCluster(trimBefore(end, found[:n]), text, base) {
			done, end = append(done, f), f.End
		}
		found = found[n:]
	}
	return done, nil
}

// trimBefore removes the parts of the candidates before end.
func trimBefore(end int, cluster []Finding) []Finding {
	cluster = slices.Clone(cluster)
	for i := range cluster {
		cluster[i].Start = max(cluster[i].Start, end)
	}
	return slices.DeleteFunc(cluster, func(f Finding) bool { return f.Start >= f.End })
}

// resolveCluster returns the findings of one cluster, in order.
//
// Of two candidates for the same bytes, or that overlap in part, the better score wins; of
// two nested ones the outer, so that all of it is replaced. Ties are decided by length,
// position and type. A candidate inside a loser is compared again, and a loser with an
// uncovered letter or digit is joined to its winner.
func resolveCluster(cluster []Finding, text string, base int) []Finding {
	if len(cluster) < 2 {
		return cluster
	}
	var winners, losers []Finding
	for left := cluster; len(left) > 0; {
		outer := slices.DeleteFunc(slices.Clone(left), func(f Finding) bool { return slices.ContainsFunc(left, f.inside) })
		slices.SortFunc(outer, byRank)
		for _, f := range outer {
			switch i := slices.IndexFunc(winners, f.overlaps); {
			case i < 0:
				winners = append(winners, f)
			case f.Type != Email || winners[i].Type != URLCredentials: // "password@host" is not an email address
				losers = append(losers, f)
			}
		}
		left = slices.DeleteFunc(left, func(f Finding) bool {
			return slices.Contains(outer, f) || slices.ContainsFunc(winners, func(o Finding) bool { return o.covers(f) })
		})
	}
	slices.SortFunc(winners, byStart)
	for _, f := range losers {
		if f.hasUncovered(winners, text, base) {
			winners = join(winners, f)
		}
	}
	return winners
}

// hasUncovered reports whether f has a letter or digit outside of all findings in
// winners, which is sorted.
func (f Finding) hasUncovered(winners []Finding, text string, base int) bool {
	at := f.Start
	for _, o := range winners {
		if o.overlaps(f) {
			if hasAlnum(text[at-base : max(at, o.Start)-base]) {
				return true
			}
			at = max(at, o.End)
		}
	}
	return at < f.End && hasAlnum(text[at-base:f.End-base])
}

func hasAlnum(text string) bool {
	for i := range len(text) {
		if class[text[i]]&(alnum|high) != 0 {
			return true
		}
	}
	return false
}

// join merges f with the overlapping findings of winners. The result has the type of
// the best of these.
func join(winners []Finding, f Finding) []Finding {
	var best *Finding
	rest := make([]Finding, 0, len(winners))
	for _, o := range winners {
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
