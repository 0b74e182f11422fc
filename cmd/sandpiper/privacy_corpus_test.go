package main

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect"
)

// corpus has one value of every type, by the key that the server uses. Corpora with
// different numbers have no common values.
type corpus map[string]any

func newCorpus(t *testing.T, number int) corpus {
	t.Helper()
	sum := sha256.Sum256(fmt.Append(nil, number))
	dice := rand.New(rand.NewChaCha8(sum))
	digits := func(n int) string { return fmt.Sprint(dice.Int64N(9e17) + 1e17)[:n] }
	hexes := func(n int) string {
		return fmt.Sprintf("%016x%016x%016x%016x", dice.Uint64(), dice.Uint64(), dice.Uint64(), dice.Uint64())[:n]
	}
	word := func(n int) string { return strings.Map(func(r rune) rune { return 'a' + r%26 }, hexes(n)) }
	opaque := func(n int) string { return base64.RawURLEncoding.EncodeToString([]byte(hexes(n))) }
	ssn := func() int { return (100+dice.IntN(500))*1_000_000 + (1+dice.IntN(99))*10_000 + number*2 + 1 }
	social, jwt := ssn(), base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"HS256","typ":"JWT"}`))
	c := corpus{
		"email": fmt.Sprintf("%s.%d@example.com", word(7), number), "phone": fmt.Sprintf("+1 (%d) 555-01%s", 201+dice.IntN(700), digits(2)),
		"ssn": fmt.Sprintf("%03d-%02d-%04d", social/1_000_000, social/10_000%100, social%10_000), "social_security_number": ssn() + 1,
		"ip": fmt.Sprintf("198.%d.%d.%d", 20+dice.IntN(80), 100+dice.IntN(155), 100+dice.IntN(155)), "api_key": "ghp_" + hexes(36),
		"mac": fmt.Sprintf("00:1a:%s:%s:%s:%s", hexes(2), hexes(2), hexes(2), hexes(2)), "wallet": "0x" + hexes(40),
		"url":         fmt.Sprintf("postgres://%s:%s@db.example.com/shop", word(6), opaque(12)),
		"session":     jwt + "." + base64.RawURLEncoding.EncodeToString([]byte(`{"sub":"`+hexes(12)+`"}`)) + "." + opaque(32),
		"private_key": "-----BEGIN PRIVATE KEY-----\n" + opaque(48) + "\n" + opaque(30) + "\n-----END PRIVATE KEY-----",
		"passport":    "X" + digits(8), "drivers_license": "D" + digits(7), "itin": fmt.Sprintf("9%s-7%s-%s", digits(2), digits(1),
			digits(4)),
		"name": "Ada " + title(word(8)), "address": fmt.Sprintf("%s %s Street, Bristol BS1 4QA", digits(3), title(word(8))),
	}
	card, account := digits(10), digits(14)
	for i := range 100 { // one of them has valid check digits
		c.check(detect.CreditCard, "card", fmt.Sprintf("4000%s%02d", card, i))
		c.check(detect.IBAN, "iban", fmt.Sprintf("DE%02d9999%s", i, account))
	}
	c.found(t)
	return c
}

func title(word string) string { return strings.ToUpper(word[:1]) + word[1:] }

// allTypes lists the built-in types.
var allTypes = strings.Fields(`EMAIL PHONE SSN CREDIT_CARD IP_ADDRESS API_KEY IBAN MAC_ADDRESS CRYPTO URL_CREDENTIALS JWT PRIVATE_KEY US_PASSPORT
	US_DRIVER_LICENSE US_ITIN NAME ADDRESS`)

// scanner has the built-in rules.
var scanner = func() *detect.Scanner {
	s, err := detect.New(detect.Config{Names: detect.Always}) // values are scanned without their record
	if err != nil {
		panic(err)
	}
	return s
}()

// check adds value if it has the type.
func (c corpus) check(typ detect.Type, key, value string) {
	if f := scanner.Scan(value); len(f) == 1 && f[0].Type == typ {
		c[key] = value
	}
}

// found checks that every type exists and is detected.
func (c corpus) found(t *testing.T) {
	t.Helper()
	types := map[detect.Type]bool{}
	for key, value := range c {
		f := scanner.Value(key, fmt.Sprint(value))
		if len(f) != 1 {
			t.Fatalf("%s %v is found as %+v", key, value, f)
		}
		types[f[0].Type] = true
	}
	if len(types) != len(allTypes) {
		t.Fatalf("the corpus has %d types: %v", len(types), slices.Sorted(maps.Keys(types)))
	}
}

// secrets returns the personal parts of the values, such as the password of a URL.
func (c corpus) secrets() (all []string) {
	for key, value := range c {
		text := fmt.Sprint(value)
		f := scanner.Value(key, text)
		all = append(all, text[f[0].Start:f[0].End])
	}
	return all
}

// only returns the values of some keys, all if keys is empty.
func (c corpus) only(keys string) corpus {
	if keys == "" {
		return c
	}
	some := corpus{}
	for key := range strings.FieldsSeq(keys) {
		some[key] = c[key]
	}
	return some
}

func (c corpus) json() string {
	b, err := json.Marshal(c)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// lines returns the values on separate lines.
func (c corpus) lines() string {
	var all []string
	for _, key := range slices.Sorted(maps.Keys(c)) {
		all = append(all, fmt.Sprint(c[key]))
	}
	return strings.Join(all, "\n")
}
