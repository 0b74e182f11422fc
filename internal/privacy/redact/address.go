package redact

import (
	"net/netip"
	"slices"
	"strings"
)

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
