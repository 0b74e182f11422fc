package vault

import (
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect"
)

// canonical returns a form that is equal for different spellings of a value. Only the
// id is computed from it; Restore returns the original spelling.
func canonical(v Value) string {
	switch v.Type {
	case detect.Phone, detect.CreditCard, detect.SSN, detect.USITIN:
		if digits := strings.Map(digit, v.Text); digits != "" {
			return digits
		}
	case detect.IBAN:
		return strings.ToUpper(strings.Join(strings.Fields(v.Text), ""))
	case detect.APIKey, detect.JWT, detect.PrivateKey, detect.URLCredentials, detect.Crypto:
		return v.Text // secrets are case-sensitive
	}
	return strings.ToLower(strings.Join(strings.Fields(v.Text), " "))
}

func digit(r rune) rune {
	if r >= '0' && r <= '9' {
		return r
	}
	return -1
}
