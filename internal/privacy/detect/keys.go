package detect

import "strings"

// keyHint is the type of value that a key suggests.
type keyHint struct {
	typ      Type                    // "" if the key suggests none
	accepts  func(value string) bool // nil accepts any value
	score    float64
	evidence Type // personKey or roleKey if the key is evidence for names, or ""
}

const maxKey = 40

// builtin returns the hints of keys in lower case without separators. A longer key
// that ends in two or more of these words has the same hint.
func builtin() map[string]keyHint {
	m := map[string]keyHint{}
	put := func(h keyHint, keys string) {
		for k := range strings.FieldsSeq(keys) {
			m[k] = h
		}
	}
	put(keyHint{typ: Name, accepts: nameLike, score: 0.75, evidence: personKey}, `firstname lastname fullname surname givenname givennames forename forenames familyname middlename maidenname realname fname lname
		customername clientname patientname employeename contactname personname membername guestname passengername ownername holdername cardholder cardholdername
		accountholder recipientname sendername billingname shippingname attendeename authorname vorname nachname nombre apellido prenom nom`)
	put(keyHint{typ: nameInObject, accepts: titleCase, score: bareNameScore}, "name")
	put(keyHint{typ: Name, accepts: titleCase, score: 0.6, evidence: personKey}, "patient employee passenger guest attendee applicant resident nurse physician cardholder beneficiary spouse")
	put(keyHint{accepts: anything, evidence: personKey}, `dob dateofbirth birthdate birthday gender salary jobtitle nationality maritalstatus login username employeeid employeeno employeenumber
		patientid patientno patientnumber studentid passengerid mrn hiredate`)
	put(keyHint{typ: Name, accepts: listedName, score: 0.6, evidence: roleKey}, `person customer contact student teacher doctor donor candidate subscriber user member author owner
		assignee reporter reviewer creator manager colleague`)
	put(keyHint{typ: Name, accepts: listedName, score: 0.6}, "client buyer seller sender recipient requester approver instructor")
	put(keyHint{accepts: anything, evidence: roleKey}, `patients employees passengers guests attendees applicants residents nurses physicians beneficiaries persons people customers contacts
		students teachers doctors donors candidates subscribers users members authors owners assignees reporters reviewers managers staff colleagues`)
	put(keyHint{typ: Address, accepts: addressLike, score: 0.7}, `address addr streetaddress addressline addressline1 addressline2 address1 address2 homeaddress mailingaddress postaladdress
		billingaddress shippingaddress deliveryaddress residentialaddress customeraddress formattedaddress fulladdress`)
	put(keyHint{typ: Address, accepts: streetLike, score: 0.7}, "street street1 street2 streetname streetline1 addressstreet strasse calle rue")
	put(keyHint{typ: Phone, accepts: phoneLike, score: 0.8}, `phone phones phonenumber phonenumbers mobile mobilenumber mobilephone cell cellphone cellnumber telephone telephonenumber tel
		fax faxnumber workphone homephone officephone contactnumber whatsapp msisdn`)
	put(keyHint{typ: SSN, accepts: nineDigits, score: 0.8}, "ssn socialsecurity socialsecuritynumber")
	put(keyHint{typ: USPassport, accepts: documentLike, score: 0.75}, "passport passportnumber passportno")
	put(keyHint{typ: USDriverLicense, accepts: documentLike, score: 0.75}, "driverlicense driverslicense driverlicensenumber driverslicensenumber driverlicence driverslicence drivinglicence drivinglicense")
	return m
}

// tails is a filter that rejects most keys: a hash table of the last three bytes of
// all keys with a hint.
type tails [1024]bool

func (t *tails) put(key string) {
	if len(key) < 3 { // a short key may end any key
		for i := range t {
			t[i] = true
		}
		return
	}
	end := key[len(key)-3:]
	t[tail(uint32(end[0])<<16|uint32(end[1])<<8|uint32(end[2]))] = true
}

func tail(bytes uint32) uint32 { return bytes & 0xFFFFFF * 0x9E3779B1 >> 22 }

// key returns the hint of a key, or of its last words, as in "customer_first_name".
func (s *Scanner) key(key string) (keyHint, bool) {
	if len(key) > maxKey {
		return keyHint{}, false
	}
	var buf [maxKey]byte
	var starts [maxKey]int
	n, k, last := 0, 0, uint32(0)
	for i := range len(key) {
		c := class[key[i]]
		if c&(alnum|high) == 0 {
			continue
		}
		if i == 0 || class[key[i-1]]&(alnum|high) == 0 || c&upper != 0 && class[key[i-1]]&lower != 0 {
			starts[k], k = n, k+1
		}
		buf[n] = key[i]
		if c&upper != 0 {
			buf[n] |= 0x20
		}
		last = last<<8 | uint32(buf[n])
		n++
	}
	if n >= 3 && !s.tails[tail(last)] {
		return keyHint{}, false
	}
	if h, ok := s.keys[string(buf[:n])]; ok {
		return h, true
	}
	if k > 2 {
		if h, ok := s.keys[string(buf[starts[k-2]:n])]; ok {
			return h, true
		}
	}
	if k > 1 && string(buf[starts[k-1]:n]) != "name" {
		h, ok := s.keys[string(buf[starts[k-1]:n])]
		return h, ok && h.accepts != nil
	}
	return keyHint{}, false
}

func anything(string) bool { return true }

// addHinted adds text[start:end] if its key has a hint that the value matches.
func (s *Scanner) addHinted(found []Finding, text, key string, start, end int) []Finding {
	h, ok := s.key(key)
	for start < end && text[start] == ' ' {
		start++
	}
	for start < end && text[end-1] == ' ' {
		end--
	}
	if !ok || h.typ == "" || start == end || h.accepts != nil && !h.accepts(text[start:end]) {
		return found
	}
	return append(found, Finding{Type: h.typ, Start: start, End: end, Score: h.score})
}

// addEvidence adds a key at start if it is evidence for names.
func (s *Scanner) addEvidence(found []Finding, key string, start int) []Finding {
	if h, ok := s.key(key); ok && h.evidence != "" {
		return append(found, Finding{Type: h.evidence, Start: start, End: start + len(key)})
	}
	return found
}

// label examines a ':' after a quoted key, or after a line that so far has only words.
func (p *pass) label(colon int) {
	b := p.at(colon - 1)
	if b == '"' || b == '\'' {
		p.quotedKey(colon, b)
		return
	}
	if b < 'a' || p.at(colon+1) != ' ' {
		return
	}
	first := colon
	for first > 0 && colon-first < 24 && (p.is(first-1, letter) || p.text[first-1] == ' ' || p.text[first-1] == '_') {
		first--
	}
	if first > 0 && p.text[first-1] != '\n' && p.text[first-1] != '"' { // a JSON string often contains output lines
		return
	}
	end := colon + 1
	for end < len(p.text) && end-colon < maxValue && p.text[end] != '\n' && p.text[end] != '\r' && p.text[end] != '\\' && p.text[end] != '"' {
		end++
	}
	have := len(p.found)
	p.addKeyed(p.text[first:colon], colon+1, end)
	for i := have; i < len(p.found); i++ {
		if p.found[i].Type == nameInObject {
			p.found[i].Type = nameInLine
		}
	}
	p.addEvidence(p.text[first:colon], first)
}

const maxValue = 200

func (p *pass) quotedKey(colon int, quote byte) {
	end := colon - 1
	slash := p.at(end-1) == '\\'
	if slash {
		end--
	}
	first := end
	for first > 0 && end-first <= maxKey && p.text[first-1] != quote {
		first--
	}
	if first == end || end-first > maxKey {
		return
	}
	key := p.text[first:end]
	if _, ok := p.s.key(key); !ok {
		return
	}
	p.addEvidence(key, first)
	i := colon + 1
	list := false
	for i < len(p.text) && i-colon < 32 && strings.IndexByte(" \t\r\n[", p.text[i]) >= 0 {
		list = list || p.text[i] == '['
		i++
	}
	for n := 0; n < 16; n++ {
		i = p.element(key, i, quote, slash)
		if !list || p.at(i) != ',' {
			return
		}
		for i++; i < len(p.text) && strings.IndexByte(" \t\r\n", p.text[i]) >= 0 && i-colon < 4096; i++ {
		}
	}
}

// element examines the string or number at i and returns the position after it.
func (p *pass) element(key string, i int, quote byte, slash bool) int {
	for n := 0; slash && n < 4 && p.at(i) == '\\'; n++ {
		i++
	}
	if p.at(i) != quote {
		end := i
		for end-i < maxValue && (p.is(end, digit) || p.at(end) == '.') {
			end++
		}
		p.addKeyed(key, i, end)
		return end
	}
	i++
	end := i
	for end < len(p.text) && end-i < maxValue && p.text[end] != quote && p.text[end] != '\n' {
		if p.text[end] == '\\' && !slash {
			end++
		}
		end++
	}
	if p.at(end) != quote {
		return end
	}
	stop := end
	for slash && stop > i && p.text[stop-1] == '\\' {
		stop--
	}
	p.addKeyed(key, i, stop)
	return end + 1
}

func (p *pass) addEvidence(key string, start int) {
	p.found = p.s.addEvidence(p.found, key, p.base+start)
}

func (p *pass) addKeyed(key string, start, end int) {
	if start >= end {
		return
	}
	have := len(p.found)
	p.found = p.s.addHinted(p.found, p.text, key, start, end)
	for i := have; i < len(p.found); i++ {
		p.found[i].Start += p.base
		p.found[i].End += p.base
	}
}
