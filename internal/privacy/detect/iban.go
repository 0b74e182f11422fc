package detect

import "strings"

// ibans maps countries to the length of their account numbers, from the SWIFT registry
// of IBAN formats.
var ibans = lengths(`AD24 AE23 AL28 AT20 AZ28 BA20 BE16 BG22 BH22 BI27 BR29 BY28 CH21 CR22 CY28 CZ24 DE22 DJ27 DK18 DO28 EE20 EG29
ES24 FI18 FK18 FO18 FR27 GB22 GE22 GI23 GL18 GR27 GT28 HN28 HR21 HU28 IE22 IL23 IQ23 IS26 IT27 JO30 KW30 KZ20 LB28 LC32 LI21 LT20 LU20
LV21 LY25 MC27 MD24 ME22 MK19 MN20 MR27 MT31 MU30 NI28 NL18 NO15 OM23 PK24 PL28 PS29 PT25 QA29 RO24 RS22 RU33 SA24 SC31 SD18 SE24 SI19
SK24 SM27 SO23 ST25 SV28 TL23 TN24 TR26 UA29 VA22 VG24 XK20 YE30`)

var accounts = recognizer{
	Type:    IBAN,
	Anchors: []anchor{{First: letters, Has: digit, Least: 4}},
	Find:    findIBAN,
	Examples: []string{
		"«DE89370400440532013000», «DE89 3704 0044 0532 0130 00», «gb82west12345698765432»",
		"DE00123456782024 DE89370400440532013001 GB82aEST12345698765432",
		"IBAN «DE8937040044053201300» lacks one digit",
		"DE8937040044053201300 and iban DE893704004405320130",
	},
}

func lengths(table string) map[string]int {
	m := map[string]int{}
	for row := range strings.FieldsSeq(table) {
		m[row[:2]] = decimal(row[2:])
	}
	return m
}

// findIBAN examines two letters and two digits, followed by the rest in one run or in
// groups of four with spaces or dashes, in upper or lower case.
func findIBAN(p *passage, start, _ int) {
	if p.continues(start, tokens) || !p.run(start+2, 2) {
		return
	}
	letters := class[p.text[start]] & letter
	want := ibans[string([]byte{p.text[start] &^ 0x20, p.text[start+1] &^ 0x20})]
	if want == 0 {
		return
	}
	var all [34]byte
	n, i, end := 0, start, start
	for n < want {
		switch b := p.at(i); {
		case class[b]&digit != 0:
			all[n] = b
			n, i, end = n+1, i+1, i+1
		case class[b]&letters != 0:
			all[n] = b &^ 0x20
			n, i, end = n+1, i+1, i+1
		case (b == ' ' || b == '-') && n%4 == 0 && n > 0:
			i++
		default:
			if n == want-1 && !p.is(end, alnum|high) && p.hint(start) == hintIBAN && completable(all[:want]) {
				p.add(start, end, 0.75)
			}
			return
		}
	}
	if p.is(i, alnum) || !mod97(all[:n]) {
		return
	}
	p.add(start, i, 0.99)
}

// completable reports whether some last digit makes the checksum valid. One in ten numbers
// is completable by chance, so that a hint is required as well.
func completable(all []byte) bool {
	for d := byte('0'); d <= '9'; d++ {
		all[len(all)-1] = d
		if mod97(all) {
			return true
		}
	}
	return false
}
