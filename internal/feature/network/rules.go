package network

import (
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/glob"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream/urlpath"
)

// ServerName is the name of the server whose tools are the requests of code.
const ServerName = "network"

// Rule allows requests to a host.
type Rule struct {
	Host      string   `key:"host"`                         // a name or an address, *.DOMAIN for the names below a domain, or * for all
	Scheme    string   `key:"scheme"`                       // "" means https
	Port      int      `key:"port" range:"1 65535"`         // 0 means the default of the scheme
	Methods   []string `key:"methods" form:"one or more"`   // nil means GET and HEAD
	Paths     []string `key:"paths" form:"one or more"`     // patterns; nil means all
	Addresses []string `key:"addresses" form:"one or more"` // prefixes of addresses that are not public, to which the host may resolve
	Secret    *Secret  `key:"secret"`                       // added to each request; nil means none
}

// Secret is a header that code does not see.
type Secret struct {
	Header string `key:"header"`
	Value  string `key:"value" form:"secret"`
}

// Check reports what is missing.
func (s *Secret) Check() error {
	switch {
	case s.Header == "":
		return fault.New(fault.Invalid, "has no header")
	case s.Value == "":
		return fault.New(fault.Invalid, "has no value")
	}
	return nil
}

// Rules are the rules of a Client. The first one that a request matches applies. Their zero value
// allows nothing.
type Rules struct{ all []rule }

// rule is a Rule that is ready to use.
type rule struct {
	Rule
	number   int              // from 1
	paths    [][]glob.Pattern // of each of the readings
	prefixes []netip.Prefix
}

// NewRules returns rules. The message of an error begins with a verb.
func NewRules(all []Rule) (*Rules, error) {
	r := &Rules{}
	for i, one := range all {
		ready, err := newRule(one)
		if err != nil {
			return nil, fmt.Errorf("entry %d %w", i+1, err)
		}
		ready.number = i + 1
		r.all = append(r.all, ready)
	}
	return r, nil
}

func newRule(of Rule) (r rule, err error) {
	if of.Scheme == "" {
		of.Scheme = "https"
	}
	if of.Methods == nil {
		of.Methods = []string{"GET", "HEAD"}
	}
	r.Rule = of
	if of.Scheme != "https" && of.Scheme != "http" {
		return r, fmt.Errorf("has scheme %.40q; it must be https or http", of.Scheme)
	}
	if of.Port < 0 || of.Port > 65535 {
		return r, fmt.Errorf("has port %d; it must be from 1 to 65535", of.Port)
	}
	if r.Host, err = hostPattern(of.Host); err != nil {
		return r, err
	}
	r.Methods = nil
	for _, m := range of.Methods {
		m = strings.ToUpper(m)
		if m == "*" {
			r.Methods = methods
			break
		}
		if !slices.Contains(methods, m) {
			return r, fmt.Errorf("has method %.40q; the methods are %s", m, strings.Join(methods, ", "))
		}
		r.Methods = append(r.Methods, m)
	}
	if _, err = glob.Parse("path", of.Paths); err != nil {
		return r, err
	}
	for _, p := range of.Paths {
		if !strings.HasPrefix(p, "/") {
			return r, fmt.Errorf("has path %.80q; it must begin with /", p)
		}
		for i, reading := range urlpath.Readings(p) {
			if i == len(r.paths) {
				r.paths = append(r.paths, nil)
			}
			r.paths[i] = append(r.paths[i], strings.Split(reading, "*"))
		}
	}
	for _, text := range of.Addresses {
		p, err := parsePrefix(text)
		if err != nil {
			return r, fmt.Errorf("has address %.60q; it must be an address or a prefix such as 10.0.0.0/8", text)
		}
		r.prefixes = append(r.prefixes, p)
	}
	return r, checkSecret(r.Rule)
}

func checkSecret(r Rule) error {
	s := r.Secret
	switch {
	case s == nil:
		return nil
	case !httpguts.ValidHeaderFieldName(s.Header) || isOwnHeader(s.Header):
		return fmt.Errorf("has a secret for the header %.60q, which cannot be set", s.Header)
	case s.Value == "":
		return fmt.Errorf("has a secret without a value")
	case r.Host == "*":
		return fmt.Errorf("has a secret for every host; name the host that it is for")
	}
	return nil
}

// ownHeaders belong to the connection or are derived from the request. Those that libraries send
// with every request are ignored, others are refused.
var ownHeaders = map[string]bool{
	"Connection": true, "Keep-Alive": true, "Content-Length": true, "Accept-Encoding": true, "Proxy-Connection": true, "Expect": true,
	"Host":              true,
	"Transfer-Encoding": false, "Te": false, "Trailer": false, "Upgrade": false, "Proxy-Authorization": false, "Proxy-Authenticate": false,
	"Http2-Settings": false,
}

func isOwnHeader(name string) bool {
	_, own := ownHeaders[alike(name)]
	return own
}

func parsePrefix(text string) (netip.Prefix, error) {
	if a, err := netip.ParseAddr(text); err == nil {
		return netip.PrefixFrom(a.Unmap(), a.Unmap().BitLen()), nil
	}
	p, err := netip.ParsePrefix(text)
	return p.Masked(), err
}

// hostPattern returns the host of a rule as it is compared.
func hostPattern(host string) (string, error) {
	domain, below := strings.CutPrefix(host, "*.")
	if host == "*" {
		return host, nil
	}
	name, err := canonicalHost(domain)
	if err != nil {
		return "", fmt.Errorf("has host %.80q, which %w; write a name such as api.example.com, *.example.com for the names below it, or *",
			host, err)
	}
	if _, err := netip.ParseAddr(name); below && (err == nil || !strings.Contains(name, ".")) {
		return "", fmt.Errorf("has host %.80q; *. must be followed by a domain such as example.com", host)
	}
	if below {
		return "*." + name, nil
	}
	return name, nil
}

// hasHost reports whether the rule is for a host.
func (r rule) hasHost(host string) bool {
	if domain, below := strings.CutPrefix(r.Host, "*."); below {
		return strings.HasSuffix(host, "."+domain)
	}
	return r.Host == "*" || r.Host == host
}

// isPrivate reports whether the rule lists addresses that are not public.
func (r rule) isPrivate() bool {
	_, err := netip.ParseAddr(r.Host)
	return err == nil || len(r.prefixes) > 0
}

// lists reports whether the rule lists an address. A host that is an address is listed on
// purpose.
func (r rule) lists(a netip.Addr) bool {
	a = a.Unmap()
	return r.Host == a.String() || slices.ContainsFunc(r.prefixes, func(p netip.Prefix) bool { return p.Contains(a) })
}

// find returns the rule that allows a request, or a sentence that states why there is none.
func (r *Rules) find(method string, u *url.URL) (found rule, reason string) {
	host, last := u.Hostname(), ""
	for _, one := range r.all {
		if !one.hasHost(host) {
			continue
		}
		if last = one.mismatch(method, u); last == "" {
			return one, ""
		}
	}
	if last == "" {
		return rule{}, fmt.Sprintf("the host %.100s is not allowed; %s", host, r.hosts())
	}
	return rule{}, last
}

// mismatch states why a rule does not allow a request to its host; "" if it does.
func (r rule) mismatch(method string, u *url.URL) string {
	switch {
	case u.Scheme != r.Scheme || portOf(u) != r.port():
		return fmt.Sprintf("%s may be reached at %s://…:%d only, not %s and port %d", u.Hostname(), r.Scheme, r.port(), u.Scheme, portOf(u))
	case !slices.Contains(r.Methods, method):
		return fmt.Sprintf("the method %s is not allowed for %s; the methods are %s", method, u.Hostname(), strings.Join(r.Methods, ", "))
	case r.Paths != nil && !matchAll(r.paths, urlpath.Readings(pathOf(u))[:1]):
		return fmt.Sprintf("the path %.100s is not allowed for %s; the paths are %s", pathOf(u), u.Hostname(), strings.Join(r.Paths, ", "))
	case r.Paths != nil && !matchAll(r.paths, urlpath.Readings(pathOf(u))):
		return fmt.Sprintf("the path %.100s is not allowed for %s, because some servers read another one from its escapes or semicolons; "+
			"the paths are %s", pathOf(u), u.Hostname(), strings.Join(r.Paths, ", "))
	}
	return ""
}

// matchAll reports whether each reading of a path matches a pattern that is read in the same way.
func matchAll(patterns [][]glob.Pattern, readings []string) bool {
	for i, path := range readings {
		if i >= len(patterns) || !glob.MatchAny(patterns[i], path) {
			return false
		}
	}
	return true
}

func (r rule) port() int {
	switch {
	case r.Port != 0:
		return r.Port
	case r.Scheme == "http":
		return 80
	}
	return 443
}

func portOf(u *url.URL) int {
	if n, err := strconv.Atoi(u.Port()); err == nil {
		return n
	}
	return rule{Rule: Rule{Scheme: u.Scheme}}.port()
}

// pathOf returns the path as it is sent, in which an escaped slash is not a slash.
func pathOf(u *url.URL) string {
	if p := u.EscapedPath(); p != "" {
		return p
	}
	return "/"
}

// maxNamed is how many hosts an error names.
const maxNamed = 10

// hosts states which hosts are allowed.
func (r *Rules) hosts() string {
	names := r.Hosts()
	switch {
	case len(names) == 0:
		return "no host is"
	case len(names) > maxNamed:
		return fmt.Sprintf("the hosts are %s and %d more", strings.Join(names[:maxNamed], ", "), len(names)-maxNamed)
	}
	return "the hosts are " + strings.Join(names, ", ")
}

// Hosts returns the hosts of the rules, in their order.
func (r *Rules) Hosts() (names []string) {
	if r == nil {
		return nil
	}
	for _, one := range r.all {
		if !slices.Contains(names, one.Host) {
			names = append(names, one.Host)
		}
	}
	return names
}
