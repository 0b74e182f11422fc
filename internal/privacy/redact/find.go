package redact

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect/encoded"
)

// finder finds personal data and secrets in texts.
type finder struct {
	e      *Exit
	exempt func(t detect.Type, value string) bool // values that need not be replaced
}

// toModel returns a finder that skips what a model may see.
func (e *Exit) toModel() finder { return finder{e, e.exempt} }

// findAll returns a finder that skips nothing.
func (e *Exit) findAll() finder { return finder{e, func(detect.Type, string) bool { return false }} }

// find returns the values in a text: known values, detected values, and both in
// encoded form.
func (v finder) find(key, text string) []detect.Finding {
	all := append(v.findPlain(key, text), v.keepPrivate(v.disguises().Find(text), text)...)
	if len(all) < 2 {
		return all
	}
	return detect.Resolve(all, text)
}

// findPlain returns the values in a text that are not encoded. Text between known
// values is scanned a second time without them. A detected value that consists of
// known values is dropped.
func (v finder) findPlain(key, text string) []detect.Finding {
	known := v.known(text)
	found := v.detect(key, text)
	if len(known) == 0 {
		return found
	}
	found = append(found, v.detect(key, blank(text, known))...)
	found = slices.DeleteFunc(found, func(f detect.Finding) bool { return isComposedOf(f, known, text) })
	return detect.Resolve(append(found, known...), text)
}

func (v finder) detect(key, text string) []detect.Finding {
	return v.keepPrivate(v.e.detect(key, text), text)
}

func (v finder) known(text string) []detect.Finding { return v.keepPrivate(v.e.findKnown(text), text) }

func (v finder) squeezed(text string, gaps []int) []detect.Finding {
	if v.e.owner.Vault == nil {
		return nil
	}
	return v.keepPrivate(v.e.owner.Vault.FindSqueezed(text, gaps), text)
}

func (v finder) scan(text string) []detect.Finding {
	return v.keepPrivate(v.e.rules.cfg.Scanner.Scan(text), text)
}

// keepPrivate removes exempt values from found.
func (v finder) keepPrivate(found []detect.Finding, text string) []detect.Finding {
	return slices.DeleteFunc(found, func(f detect.Finding) bool { return v.exempt(f.Type, text[f.Start:f.End]) })
}

// disguises returns a finder of encoded values.
func (v finder) disguises() encoded.Finder {
	return encoded.Finder{Scan: v.scan, Known: v.known, Squeezed: v.squeezed}
}

// findSpread returns the values that span several pieces, and the cells of tables
// whose lines are the pieces.
func (v finder) findSpread(pieces []string) []encoded.Spread {
	cells := v.e.columns(pieces)
	cells = slices.DeleteFunc(cells, func(s encoded.Spread) bool {
		at := s.Parts[0]
		return v.exempt(s.Type, pieces[at.Piece][at.Start:at.End])
	})
	return append(v.disguises().Across(pieces), cells...)
}

// blank returns text with known values overwritten by zero bytes, which no value
// contains.
func blank(text string, known []detect.Finding) string {
	b := []byte(text)
	for _, f := range known {
		clear(b[f.Start:f.End])
	}
	return string(b)
}

// isComposedOf reports whether a detected value consists of known values of other
// types and of separators: "555-0123-bob@corp.com". Names and addresses may contain
// other values.
func isComposedOf(f detect.Finding, known []detect.Finding, text string) bool {
	if f.Type == detect.Name || f.Type == detect.Address {
		return false
	}
	at := f.Start
	for _, k := range known {
		if k.End > f.Start && k.Start < f.End {
			if hasWord(text[at:max(at, k.Start)]) {
				return false
			}
			at = k.End
		}
	}
	return at > f.Start && !hasWord(text[min(at, f.End):f.End])
}

// exempt reports whether the model may see a value: it is not personal, or the model
// wrote it in this call.
func (e *Exit) exempt(t detect.Type, value string) bool {
	return e.rules.isExempt(t, value) || !e.Strict() && e.owner.ModelInput.contains(value)
}

// isExempt reports whether a value is not personal: an IP address of a network that is
// not public, or the name of a tool or server.
func (r *Rules) isExempt(t detect.Type, value string) bool {
	switch t {
	case detect.IPAddress:
		return !r.cfg.AllAddresses && !isPublic(value)
	case detect.Name:
		return r.cfg.IsToolName != nil && r.cfg.IsToolName(value)
	}
	return false
}

// documentation lists the networks of RFC 5737, RFC 3849 and RFC 9637.
var documentation = []netip.Prefix{
	netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("198.51.100.0/24"), netip.MustParsePrefix("203.0.113.0/24"),
	netip.MustParsePrefix("2001:db8::/32"), netip.MustParsePrefix("3fff::/20"),
}

// isPublic reports whether an IP address, with or without prefix length, is in a
// public network. Text that does not parse counts as public.
func isPublic(text string) bool {
	host, _, _ := strings.Cut(text, "/")
	a, err := netip.ParseAddr(host)
	if err != nil {
		return true
	}
	a = a.Unmap()
	return !(a.IsLoopback() || a.IsPrivate() || a.IsLinkLocalUnicast() || a.IsUnspecified() ||
		slices.ContainsFunc(documentation, func(p netip.Prefix) bool { return p.Contains(a) }))
}
