// Package detect finds personal data and secrets in text. A Scanner holds the
// rules; Scan searches a text, Value the value of a JSON key, and a Stream text that
// arrives in pieces.
//
// Terms: a recognizer examines the bytes around one anchor and adds candidates of its type;
// an anchor is a text or a token where a recognizer is tried (an '@', a "://", a run with
// digits); a passage is the part of a text that is scanned at a time; a hint is the type that
// the words before a candidate, or its key, suggest; a Finding is a candidate that remains
// after overlaps are resolved. A score is the confidence of a rule, from 0 to 1: above 0.9 a
// checksum or an unambiguous form, below 0.7 a hint alone.
//
// Every recognizer examines a bounded number of bytes around its anchor, so that a scan is
// linear in the length of any text. A Scanner is immutable and
// safe for concurrent use; a Stream belongs to one goroutine.
//
// The package replaces nothing, has no state and does no I/O. Package encoded decodes text,
// and package known finds known values.
package detect

import "cmp"

// Type is a kind of personal data, as used in tokens and answers. An operator's patterns and
// key hints may add others.
type Type string

// The built-in types.
const (
	Email           Type = "EMAIL"
	Phone           Type = "PHONE"
	SSN             Type = "SSN"
	CreditCard      Type = "CREDIT_CARD"
	IPAddress       Type = "IP_ADDRESS"
	APIKey          Type = "API_KEY"
	IBAN            Type = "IBAN"
	MACAddress      Type = "MAC_ADDRESS"
	Crypto          Type = "CRYPTO"
	URLCredentials  Type = "URL_CREDENTIALS"
	JWT             Type = "JWT"
	PrivateKey      Type = "PRIVATE_KEY"
	USPassport      Type = "US_PASSPORT"
	USDriverLicense Type = "US_DRIVER_LICENSE"
	USITIN          Type = "US_ITIN"
	Name            Type = "NAME"
	Address         Type = "ADDRESS"
)

// Types lists the built-in types.
var Types = [...]Type{
	Email, Phone, SSN, CreditCard, IPAddress, APIKey, IBAN, MACAddress, Crypto, URLCredentials, JWT, PrivateKey,
	USPassport, USDriverLicense, USITIN, Name, Address,
}

// Finding is a value in a text: text[Start:End], in bytes, at rune boundaries.
type Finding struct {
	Type       Type
	Start, End int
	Score      float64
}

// inside reports whether f is inside a longer o.
func (f Finding) inside(o Finding) bool { return o.covers(f) && o.End-o.Start > f.End-f.Start }

func (f Finding) covers(o Finding) bool   { return f.Start <= o.Start && o.End <= f.End }
func (f Finding) overlaps(o Finding) bool { return f.Start < o.End && o.Start < f.End }

func byStart(a, b Finding) int {
	return cmp.Or(cmp.Compare(a.Start, b.Start), byRank(a, b))
}

func byRank(a, b Finding) int {
	return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(b.End-b.Start, a.End-a.Start),
		cmp.Compare(a.Start, b.Start), cmp.Compare(a.Type, b.Type))
}
