package form

import (
	"cmp"
	"iter"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

func mapsKeys[V any](m map[string]V) iter.Seq[string] { return maps.Keys(m) }

// clean returns a text in one line, without what marks a required field.
func clean(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	s = strings.TrimSpace(strings.TrimRight(s, "*: "))
	if r := []rune(s); len(r) > 200 {
		s = string(r[:199]) + "…"
	}
	return s
}

// someNames lists the first names.
func someNames(names []string) string {
	if len(names) > 5 {
		names = append(slices.Clone(names[:5]), "…")
	}
	return strings.Join(names, ", ")
}

// words splits a name or a label into lower-case words and numbers, without accents, remarks in
// parentheses and words that carry no meaning.
func words(s string) []string {
	s = remark.ReplaceAllString(s, " ")
	var out []string
	var word []rune
	end := func() {
		if w := string(word); w != "" && !idle[w] {
			out = append(out, w)
		}
		word = word[:0]
	}
	last := rune(0)
	for _, r := range norm.NFD.String(s) {
		switch {
		case unicode.Is(unicode.Mn, r), r == '\'', r == '’':
			continue
		case !unicode.IsLetter(r) && !unicode.IsDigit(r):
			end()
		default:
			if unicode.IsDigit(r) != unicode.IsDigit(last) || unicode.IsUpper(r) && unicode.IsLower(last) {
				end()
			}
			word = append(word, unicode.ToLower(r))
		}
		last = r
	}
	end()
	return out
}

var remark = regexp.MustCompile(`\([^)]*\)|\*`)

var idle = setOf("the of your my please enter a an for applicant applicants field input txt text form topmost subform page required optional if any and")

func setOf(list string) map[string]bool {
	set := map[string]bool{}
	for _, w := range strings.Fields(list) {
		set[w] = true
	}
	return set
}

// same are names of the same thing; the first of a line is the canonical one.
var same = synonyms(`
first_name: given_name given_names forename forenames firstname fname christian_name first vorname prenom
last_name: surname family_name lastname lname last nachname
full_name: name fullname full_legal_name person_name complete_name
date_birth: birth_date birthdate dob birthday bday born date_of_birth geburtsdatum
place_birth: birth_place birthplace
email: e_mail mail email_address e_mail_address mail_address
phone: telephone tel phone_number telephone_number mobile mobile_phone mobile_number cell contact_number daytime_phone
street: street_address address_line_1 address_line1 address_1 street_house_number street_number address_street
city: town address_city city_town town_city address_level_2 residence_city ort
postcode: zip zip_code postal_code post_code address_postcode address_zip address_postal_code plz
state: province region county address_level_1 address_state state_province
country: address_country country_name country_residence
nationality: citizenship
gender: sex
iban: bank_account_iban account_iban iban_number account_number_iban
bic: swift swift_code bic_swift
passport: passport_number passport_no
tax_id: tax_number taxpayer_identification_number tin tax_identification_number tax_no
ssn: social_security_number social_security_no social_security
company: employer organization organisation company_name employer_name organization_name organisation_name
occupation: job_title profession job position
signature_date: date_signed date_signature signed_on
marital: marital_status civil_status
`)

func synonyms(table string) map[string]string {
	same := map[string]string{}
	for line := range strings.Lines(table) {
		canonical, others, ok := strings.Cut(strings.TrimSpace(line), ":")
		if !ok {
			continue
		}
		for _, other := range strings.Fields(others) {
			same[other] = canonical
		}
	}
	return same
}

// canonical returns the name that all names of one thing have in common.
func canonical(parts []string) string {
	s := strings.Join(parts, "_")
	return cmp.Or(same[s], s)
}

// singular returns words that name a group, as the name of one of its rows.
func singular(parts []string) []string {
	out := slices.Clone(parts)
	for i, w := range out {
		switch {
		case w == "children":
			out[i] = "child"
		case len(w) > 4 && strings.HasSuffix(w, "ies"):
			out[i] = strings.TrimSuffix(w, "ies") + "y"
		case len(w) > 3 && strings.HasSuffix(w, "s") && !strings.HasSuffix(w, "ss"):
			out[i] = strings.TrimSuffix(w, "s")
		}
	}
	return out
}

// ownName returns the part of a field's name that a person chose: in a PDF the last part of
// "form1[0].Page1[0].Surname[0]".
func ownName(f *Field) string {
	name := f.Name
	if generated.MatchString(name) {
		if i := strings.LastIndexByte(name, '.'); i >= 0 {
			name = name[i+1:]
		}
		name = strings.TrimSuffix(name, "[0]")
	}
	return name
}

var generated = regexp.MustCompile(`\[\d+\]\.|^topmostSubform|#subform`)
