package main

import (
	"fmt"
	"hash/fnv"
	"math/big"
	"math/rand/v2"
	"strings"
)

// person is a row. All people are fictitious: mail addresses are in the domains of
// RFC 2606, IP addresses in the ranges of RFC 5737 and RFC 3849, telephone numbers in
// ranges reserved for fiction where a country has one, and the rest is random with
// valid check digits.
type person struct {
	ID      int     `json:"id"`
	Name    string  `json:"name"`
	Email   string  `json:"email"`
	Phone   string  `json:"phone"`
	SSN     string  `json:"ssn"`
	Social  int     `json:"social_security_number" jsonschema:"the same as a number"`
	Card    string  `json:"card"`
	IBAN    string  `json:"iban"`
	Address string  `json:"address"`
	IP      string  `json:"last_ip"`
	Plan    string  `json:"plan"`
	Spent   float64 `json:"spent"`
	Notes   string  `json:"notes"`
}

var (
	given = strings.Fields(`Maria Jonas Aisha Łukasz Chloé Mateo Ingrid Kwame Yuki Fatima Pavel Siobhán Diego Anneliese Rajesh Zoë Tomás Hanna Olu Giulia
		Emre Noor Viktor Beatriz Callum Mei Sören Leila Andrzej Rosalind Tariq Élodie Hamish Priya Stefan Ottilie Babak Marisol Jürgen Thandiwe`)
	family = strings.Fields(`Lopez Brandt Okafor Nowak Lefèvre Herrera Dahl Mensah Tanaka Rahman Novotný O'Connell Castillo Weiß Iyer Vandermeer Araújo Virtanen
		Adeyemi Ricci Yıldız Haddad Petrov Fonseca MacLeod Zhang Lindqvist Karimi Wójcik Ashworth Siddiqui Moreau Drummond Chatterjee Kessler Brückner
		Ghorbani Quintero Schäfer Dlamini`)
	domains = []string{"example.com", "example.org", "example.net", "mail.example.com", "post.example"}
	plans   = []string{"free", "team", "business"}
	streets = []string{"%d Harbour Street, Bristol BS%d 4QA", "%d Linden Avenue, Springfield, IL 627%d", "Birkenweg %d, 101%d Berlin",
		"%d rue des Tilleuls, 750%d Paris", "Calle del Olmo %d, 280%d Madrid", "%d Wattle Road, Brunswick VIC 30%d"}
	phones = []string{"+1 %[1]d-555-01%02[2]d", "(%[1]d) 555-01%02[2]d", "%[1]d.555.01%02[2]d", "+1%[1]d55501%02[2]d", "+44 20 7946 0%[1]d",
		"07700 900%[1]d", "+49 30 23125 %[1]d",
		"+33 1 99 00 %02[2]d %02[3]d", "06 39 98 %02[2]d %02[3]d", "+61 3 5550 %02[2]d%02[3]d", "+44 (0)115 496 0%[1]d"}
	banks = []string{"DE%s9999%014d", "GB%sTEST%014d", "FR%s9999%019d", "NL%sTEST%010d", "ES%s9999%016d", "CH%s9999%013d"}
	notes = []string{
		"Wants to be called back on {phone}, not before noon.",
		"Dear {name}, your invoice went to {email}.",
		"Card {card} was declined, so the rest comes from {iban}.",
		"Identified with SSN {ssn} at the counter.",
		"Signed in from {ip}; the new password went to {email} and, in copy, to assistant.{id}@example.org.",
		"Has moved.\nAddress: {address}\nPhone: {phone}",
		"Prefers letters. Nothing else to say.",
	}
)

// invent returns row i of a sheet. It is deterministic.
func invent(sheet string, i int) person {
	seed := fnv.New64a()
	seed.Write([]byte(sheet))
	dice := rand.New(rand.NewPCG(seed.Sum64(), uint64(i)))
	first, last := pick(dice, given), pick(dice, family)
	area, group, serial := 100+dice.IntN(500), 1+dice.IntN(99), 1+dice.IntN(9999)
	p := person{
		ID: i + 1, Name: first + " " + last, Plan: pick(dice, plans), Spent: float64(dice.IntN(500_000)) / 100,
		Email: fmt.Sprintf("%s.%s.%d@%s", plain(first), plain(last), i+1, pick(dice, domains)),
		Phone: fmt.Sprintf(pick(dice, phones), 200+dice.IntN(700), dice.IntN(100), dice.IntN(100)),
		SSN:   fmt.Sprintf("%03d-%02d-%04d", area, group, serial), Social: area*1_000_000 + group*10_000 + serial,
		Card: card(dice), IBAN: iban(dice), IP: address(dice),
		Address: fmt.Sprintf(pick(dice, streets), 1+dice.IntN(199), 10+dice.IntN(10)),
	}
	p.Notes = note(pick(dice, notes), p)
	return p
}

func pick[T any](dice *rand.Rand, from []T) T { return from[dice.IntN(len(from))] }

// plain returns a name as it is written in a mail address.
func plain(name string) string {
	return strings.NewReplacer("ł", "l", "é", "e", "á", "a", "ë", "e", "è", "e", "ö", "o", "ü", "u", "ä", "a", "ó", "o", "ú", "u", "ý", "y",
		"ı", "i", "ß", "ss", "'", "").
		Replace(strings.ToLower(name))
}

// note fills the placeholders of a form with the values of p.
func note(form string, p person) string {
	return strings.NewReplacer("{name}", p.Name, "{phone}", p.Phone, "{email}", p.Email, "{ssn}", p.SSN, "{card}", p.Card, "{iban}", p.IBAN,
		"{address}", p.Address, "{ip}", p.IP, "{id}", fmt.Sprint(p.ID)).Replace(form)
}

// card returns a card number with a valid Luhn digit, with or without spaces.
func card(dice *rand.Rand) string {
	digits := fmt.Sprintf("%s%08d", pick(dice, []string{"4000001", "5105101", "6011001"}), dice.IntN(100_000_000))
	sum := 0
	for i := range digits {
		d := int(digits[i] - '0')
		if i%2 == 0 {
			d = d*2/10 + d*2%10
		}
		sum += d
	}
	digits += fmt.Sprint((10 - sum%10) % 10)
	if dice.IntN(2) == 0 {
		return digits
	}
	return digits[:4] + " " + digits[4:8] + " " + digits[8:12] + " " + digits[12:]
}

// iban returns an account number with the check digits of ISO 7064.
func iban(dice *rand.Rand) string {
	form, account := pick(dice, banks), dice.Int64N(1e10)
	zero := fmt.Sprintf(form, "00", account)
	number := ""
	for _, c := range zero[4:] + zero[:4] {
		if c >= 'A' {
			number += fmt.Sprint(c - 'A' + 10)
		} else {
			number += string(c)
		}
	}
	n, _ := new(big.Int).SetString(number, 10) // only digits
	return fmt.Sprintf(form, fmt.Sprintf("%02d", 98-n.Mod(n, big.NewInt(97)).Int64()), account)
}

// address returns an IP address in a range for documentation.
func address(dice *rand.Rand) string {
	if dice.IntN(4) == 0 {
		return fmt.Sprintf("2001:db8:%x:%x::%x", 1+dice.IntN(0xffff), 1+dice.IntN(0xffff), 1+dice.IntN(0xffff))
	}
	return fmt.Sprintf("%s.%d", pick(dice, []string{"192.0.2", "198.51.100", "203.0.113"}), 1+dice.IntN(254))
}
