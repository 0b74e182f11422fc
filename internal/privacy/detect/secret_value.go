package detect

import (
	"math"
	"slices"
	"strings"
)

// secretLike reports whether a value with the name of a secret looks like one. A value is
// delimited if its ends are certain, which those of code in place of a value are not.
func secretLike(v string, kind secretKind, delimited bool) bool {
	if placeholder(v) || strings.Contains(v, "://") || strings.ContainsAny(v, "<>{}()[]$") && !mixed(v) {
		return false
	}
	bits := entropy(v)
	if kind == password {
		return len(v) >= 6 && bits >= 2.2 && (mixed(v) || strings.ContainsAny(v, "!@#%^&*")) && !isDigits(v)
	}
	switch {
	case len(v) < 10 || kind == session && len(v) < 26:
		return false
	case !mixed(v):
		return delimited && kind == key && len(v) >= 14 && bits >= 3.2 && unpronounceable(v)
	case isDigits(v):
		return len(v) >= 15
	case strings.Count(v, ".")+strings.Count(v, "/") > 4 && len(v) < 60:
		return false
	case hexadecimal(v):
		return bits >= 2.3 && scrambled(v)
	}
	return bits >= 2.9 && (scrambled(v) || delimited && len(v) >= 14 && unpronounceable(v) || len(v) >= 24 && bits >= 3.7)
}

// unpronounceable reports whether v has few vowels and five consonants in a row, and
// nothing that separates words.
func unpronounceable(v string) bool {
	vowels, letters, run, longest := 0, 0, 0, 0
	for i := range len(v) {
		switch {
		case class[v[i]]&digit != 0:
			run = 0
			continue
		case class[v[i]]&letter == 0:
			return false
		case strings.IndexByte("aeiouyAEIOUY", v[i]) >= 0:
			vowels, run = vowels+1, 0
		default:
			run++
			longest = max(longest, run)
		}
		letters++
	}
	return longest >= 5 && vowels*10 <= 3*letters
}

// scrambled reports whether letters and digits alternate within the parts of v. They
// do not in "prod-db-2024" and "rsa1024".
func scrambled(v string) bool {
	turns, last := 0, uint8(0)
	for i := range len(v) {
		c := class[v[i]] & alnum
		if c&letter != 0 {
			c = letter
		}
		if last != 0 && c != 0 && c != last {
			turns++
		}
		last = c
	}
	return turns >= 2
}

// random reports whether s after a prefix is unlikely to be a word. A shorter prefix,
// with which more words begin, needs more entropy.
func random(s, prefix string) bool {
	bits := entropy(s)
	return mixed(s) && bits >= 2 || bits > 4.25 || len(prefix) > 5 && bits >= 3
}

// entropy returns the Shannon entropy in bits per character.
func entropy(s string) (bits float64) {
	var count [256]int
	for i := range len(s) {
		count[s[i]]++
	}
	for _, n := range count {
		if n > 0 {
			f := float64(n) / float64(len(s))
			bits -= f * math.Log2(f)
		}
	}
	return bits
}

// placeholder reports whether s is a placeholder for a secret.
func placeholder(s string) bool {
	low := strings.ToLower(s)
	return slices.ContainsFunc(placeholders, func(w string) bool { return strings.Contains(low, w) }) || sequence(low)
}

var placeholders = []string{"example", "xxxx", "your", "placeholder", "changeme", "change_me", "change-me", "replace", "redacted", "dummy",
	"insert", "sample",
	"notareal", "not-a-real", "not_a_real", "****", "....", "<", "${", "{{"}

// sequence reports whether s has ten characters in a row of which each follows the one
// before, as in "abcdefghijkl".
func sequence(s string) bool {
	steps := 0
	for i := 1; i < len(s); i++ {
		if s[i] != s[i-1]+1 {
			steps = 0
		} else if steps++; steps == 9 {
			return true
		}
	}
	return false
}
