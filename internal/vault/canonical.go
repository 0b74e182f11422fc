package vault

import (
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/pii"
)

// canonical is the form in which ways of writing one value are the same. Only the
// id is made of it: what comes back is what was written.
func canonical(v Value) string {
	switch v.Type {
	case pii.Phone, pii.CreditCard, pii.SSN, pii.USITIN:
		if digits := strings.Map(digit, v.Text); digits != "" {
			return digits
		}
	case pii.IBAN:
		return strings.ToUpper(strings.Join(strings.Fields(v.Text), ""))
	case pii.APIKey, pii.JWT, pii.PrivateKey, pii.URLCredentials, pii.Crypto:
		return v.Text // another case is another secret
	}
	return strings.ToLower(strings.Join(strings.Fields(v.Text), " "))
}

func digit(r rune) rune {
	if r >= '0' && r <= '9' {
		return r
	}
	return -1
}
