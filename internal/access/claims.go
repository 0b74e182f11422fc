package access

import (
	"encoding/base64"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4/json"
)

// claims are the members of a JWT by their exact names.
type claims map[string]json.RawMessage

// parseClaims parses an object. A name that occurs twice is an error: another parser may take the other
// one.
func parseClaims(b []byte) (c claims, err error) {
	err = json.Unmarshal(b, &c)
	return c, err
}

// text returns a claim that is a string, or "".
func (c claims) text(name string) (s string) {
	if json.Unmarshal(c[name], &s) != nil {
		return ""
	}
	return s
}

// list returns a claim that is a list of strings, or one string.
func (c claims) list(name string) (all []string) {
	if s := c.text(name); s != "" {
		return []string{s}
	}
	if json.Unmarshal(c[name], &all) != nil {
		return nil
	}
	return all
}

// time returns a claim that is a number of seconds since 1970.
func (c claims) time(name string) (time.Time, error) {
	var seconds *float64
	if err := json.Unmarshal(c[name], &seconds); err != nil || seconds == nil || *seconds < 0 || *seconds > 1e12 {
		return time.Time{}, unknown("its claim %s is not a time", name)
	}
	return time.UnixMilli(int64(*seconds * 1000)), nil
}

// bearerTypes are the types of bearer tokens in the header of a JWT (RFC 7519, RFC 9068), and in the claim
// typ of some providers. Other tokens that the same keys sign are no access tokens.
var bearerTypes = []string{"", "jwt", "at+jwt", "application/jwt", "application/at+jwt", "bearer"}

// checkType refuses a token of another type, and one that is bound to a key: a client that has it
// without the key is not its owner.
func checkType(token string, c claims) error {
	head, _, _ := strings.Cut(token, ".")
	b, err := base64.RawURLEncoding.DecodeString(head)
	if err != nil {
		return unknown("its header: %w", err)
	}
	header, err := parseClaims(b)
	if err != nil {
		return unknown("its header: %w", err)
	}
	for _, from := range []claims{header, c} {
		if raw, ok := from["typ"]; ok && (from.text("typ") == "" || !slices.Contains(bearerTypes, strings.ToLower(from.text("typ")))) {
			return unknown("it is of the type %.40s", raw)
		}
	}
	if _, bound := c["cnf"]; bound {
		return refuse("the token is bound to a key of its client, which this server does not verify")
	}
	return nil
}
