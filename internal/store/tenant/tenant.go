// Package tenant defines the IDs of tenants, the owners of data and quotas. An ID is a
// customer's uid as the customer writes it, checked by Parse, and has the name of the
// directory for that customer's data. IDs are values; the package does no I/O.
package tenant

import (
	"crypto/sha256"
	"encoding/base32"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// ID identifies a tenant by its customer uid. Two uids that differ in any byte, for example
// only in case or in Unicode normalization, are two tenants. The zero ID identifies no tenant.
type ID struct{ uid string }

// Local is the only tenant of a daemon that serves one user over stdio.
var Local = ID{"local"}

// maxLength is the maximum number of characters of a uid.
const maxLength = 128

// rule describes valid uids, for error messages.
const rule = "use 1 to 128 letters, digits and '@', '.', '_', '-', with at least one letter or digit, and combining marks only after " +
	"a letter"

// reserved are the names of devices on Windows, where a directory cannot have them.
var reserved = regexp.MustCompile(`(?i)^(con|prn|aux|nul|com[0-9]|lpt[0-9])$`)

// Parse returns the ID of a customer uid: 1 to 128 Unicode letters, decimal digits and
// '@', '.', '_', '-', at least one of them a letter or digit, and the first not '-'. The marks that combine with a
// letter are part of it: accents of the decomposed form of Unicode, vowel signs of Indic
// scripts. Device names of Windows, such as "con", are reserved.
func Parse(uid string) (ID, error) {
	if strings.HasPrefix(uid, "-") { // it would be a flag of a command
		return ID{}, fault.New(fault.Invalid, "tenant id %.80q begins with '-': %s", uid, rule)
	}
	return ParseStored(uid)
}

// ParseStored is Parse for an id that has data: earlier versions allowed '-' at its beginning.
func ParseStored(uid string) (ID, error) {
	refuse := func(reason string) (ID, error) {
		return ID{}, fault.New(fault.Invalid, "tenant id %.80q %s: %s", uid, reason, rule)
	}
	switch {
	case uid == "":
		return refuse("is empty")
	case !utf8.ValidString(uid):
		return refuse("is not valid UTF-8")
	case utf8.RuneCountInString(uid) > maxLength:
		return refuse("is too long")
	case reserved.MatchString(uid):
		return ID{}, fault.New(fault.Invalid, "tenant id %q is reserved: it is the name of a device on Windows", uid)
	}
	named, letter := false, false // letter: the last rune belongs to one
	for _, r := range uid {
		switch {
		case unicode.IsLetter(r):
			named, letter = true, true
		case letter && combines(r):
		case unicode.IsDigit(r):
			named, letter = true, false
		case strings.ContainsRune("@._-", r):
			letter = false
		default:
			return ID{}, fault.New(fault.Invalid, "tenant id %.80q contains %+q, which is not allowed: %s", uid, r, rule)
		}
	}
	if !named {
		return refuse("has no letter or digit")
	}
	return ID{uid}, nil
}

// combines reports whether a rune is a visible mark that combines with the letter before it.
func combines(r rune) bool {
	return unicode.In(r, unicode.Mn, unicode.Mc) && !unicode.In(r, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point)
}

// String returns the customer uid. It is not safe as a path element; see Dir.
func (id ID) String() string { return id.uid }

// plain matches the uids that are safe as path elements on every file system, also on those
// that ignore case or normalize names.
var plain = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,63}$`)

// unsafe matches what a readable prefix of a directory name cannot contain.
var unsafe = regexp.MustCompile(`[^a-z0-9_]+`)

// hashEncoding is lower-case base32 without padding, without letters that resemble digits.
var hashEncoding = base32.NewEncoding("0123456789abcdefghjkmnpqrstvwxyz").WithPadding(base32.NoPadding)

// Dir returns the name of the directories with the tenant's data: the uid itself if that is 1 to
// 64 of a-z, 0-9, '-' and '_' and starts with a letter or digit, otherwise a readable part of it,
// '.', and 130 bits of its SHA-256 hash. No uid of the first kind contains '.', so two tenants
// never share a directory. Dir of the zero ID is "".
func (id ID) Dir() string {
	if id.uid == "" || plain.MatchString(id.uid) {
		return id.uid
	}
	readable := unsafe.ReplaceAllString(strings.ToLower(id.uid), "-")
	readable = strings.Trim(readable[:min(len(readable), 32)], "-_")
	if readable == "" {
		readable = "tenant"
	}
	sum := sha256.Sum256([]byte(id.uid))
	return readable + "." + hashEncoding.EncodeToString(sum[:])[:26]
}

// IsZero reports whether id is the zero ID.
func (id ID) IsZero() bool { return id.uid == "" }

// MarshalText implements encoding.TextMarshaler.
func (id ID) MarshalText() ([]byte, error) { return []byte(id.uid), nil }

// UnmarshalText implements encoding.TextUnmarshaler. Empty text is the zero ID.
func (id *ID) UnmarshalText(b []byte) (err error) {
	*id = ID{}
	if len(b) > 0 {
		*id, err = ParseStored(string(b))
	}
	return err
}
