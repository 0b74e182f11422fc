package network

import (
	"errors"
	"net/netip"
	"strings"

	"golang.org/x/net/idna"
)

// reserved are the prefixes of IPv4 that are not public, and of IPv6 within 2000::/3 (IANA IPv4 and
// IPv6 Special-Purpose Address Registries). Addresses with an IPv4 address in them, as NAT64 and
// 6to4, are not public: the address in them may be private.
var reserved = prefixes(
	"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24",
	"192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/3",
	"2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20",
)

// global is the part of IPv6 with public addresses. Loopback, link-local, unique local (with the
// metadata address fd00:ec2::254), multicast and NAT64 addresses are outside.
var global = netip.MustParsePrefix("2000::/3")

func prefixes(texts ...string) (all []netip.Prefix) {
	for _, t := range texts {
		all = append(all, netip.MustParsePrefix(t))
	}
	return all
}

// isPublic reports whether an address is one of the public Internet.
func isPublic(a netip.Addr) bool {
	a = a.Unmap()
	if !a.IsValid() || a.Zone() != "" || a.Is6() && !global.Contains(a) {
		return false
	}
	for _, p := range reserved {
		if p.Contains(a) {
			return false
		}
	}
	return true
}

// canonicalHost returns a host as it is compared and connected to: an address, or a name in lower
// case and ASCII. The message of an error begins with a verb.
func canonicalHost(host string) (string, error) {
	if a, err := netip.ParseAddr(host); err == nil {
		if a.Zone() != "" {
			return "", errors.New("has a zone")
		}
		return a.Unmap().String(), nil
	}
	name, err := idna.Lookup.ToASCII(strings.TrimSuffix(host, "."))
	if err != nil || name == "" || len(name) > 253 || strings.Contains(name, "..") || strings.HasPrefix(name, ".") {
		return "", errors.New("is not a host name")
	}
	name = strings.ToLower(name)
	if strings.ContainsFunc(name, isOther) {
		return "", errors.New("is not a host name")
	}
	if isNumber(name[strings.LastIndexByte(name, '.')+1:]) { // 2130706433, 0x7f.1 and 0177.0.0.1 are 127.0.0.1 for some resolvers
		return "", errors.New("is a number that some programs read as an address")
	}
	return name, nil
}

func isOther(r rune) bool {
	return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' && r != '_' && r != '.'
}

// isNumber reports whether a label is a number (WHATWG URL, "ends in a number").
func isNumber(label string) bool {
	digits := "0123456789"
	if hex, ok := strings.CutPrefix(label, "0x"); ok {
		label, digits = hex, "0123456789abcdef"
	}
	return strings.Trim(label, digits) == ""
}
