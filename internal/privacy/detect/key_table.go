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
	put(keyHint{typ: Name, accepts: titleCase, score: 0.6, evidence: personKey},
		"patient employee passenger guest attendee applicant resident nurse physician cardholder beneficiary spouse")
	put(keyHint{accepts: anything, evidence: personKey}, `dob dateofbirth birthdate birthday gender salary jobtitle nationality maritalstatus login username employeeid employeeno employeenumber
		patientid patientno patientnumber studentid passengerid mrn hiredate`)
	put(keyHint{typ: Name, accepts: listedName, score: 0.6, evidence: roleKey}, `person customer contact student teacher doctor donor candidate subscriber user member author owner
		assignee reporter reviewer creator manager colleague`)
	put(keyHint{typ: Name, accepts: listedName, score: 0.6}, "client buyer seller sender recipient requester approver instructor")
	put(keyHint{accepts: anything, evidence: roleKey}, `patients employees passengers guests attendees applicants residents nurses physicians beneficiaries persons people customers contacts
		students teachers doctors donors candidates subscribers users members authors owners assignees reporters reviewers managers staff colleagues`)
	put(keyHint{typ: Address, accepts: addressLike, score: 0.7}, `address addr streetaddress addressline addressline1 addressline2 address1 address2 homeaddress mailingaddress postaladdress
		billingaddress shippingaddress deliveryaddress residentialaddress customeraddress formattedaddress fulladdress`)
	put(keyHint{typ: Address, accepts: streetLike, score: 0.7},
		"street street1 street2 streetname streetline1 addressstreet strasse calle rue")
	put(keyHint{typ: Phone, accepts: phoneLike, score: 0.8}, `phone phones phonenumber phonenumbers mobile mobilenumber mobilephone cell cellphone cellnumber telephone telephonenumber tel
		fax faxnumber workphone homephone officephone contactnumber whatsapp msisdn`)
	put(keyHint{typ: SSN, accepts: nineDigits, score: 0.8}, "ssn socialsecurity socialsecuritynumber")
	put(keyHint{typ: USPassport, accepts: documentLike, score: 0.75}, "passport passportnumber passportno")
	put(keyHint{typ: USDriverLicense, accepts: documentLike, score: 0.75},
		"driverlicense driverslicense driverlicensenumber driverslicensenumber driverlicence driverslicence drivinglicence drivinglicense")
	return m
}

// tails is a filter that rejects most keys: a hash table of the last three bytes of
// all keys with a hint.
type tails [1024]bool

func tailsOf(keys map[string]keyHint) (t tails) {
	for k := range keys {
		t.put(k)
	}
	return t
}

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

// keyTable has the hints of keys.
type keyTable struct {
	hints map[string]keyHint // by the key in lower case without separators
	tails tails
}

// find returns the hint of a key, or of its last words, as in "customer_first_name".
func (t *keyTable) find(key string) (keyHint, bool) {
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
	if n >= 3 && !t.tails[tail(last)] {
		return keyHint{}, false
	}
	if h, ok := t.hints[string(buf[:n])]; ok {
		return h, true
	}
	if k > 2 {
		if h, ok := t.hints[string(buf[starts[k-2]:n])]; ok {
			return h, true
		}
	}
	if k > 1 && string(buf[starts[k-1]:n]) != "name" {
		h, ok := t.hints[string(buf[starts[k-1]:n])]
		return h, ok && h.accepts != nil
	}
	return keyHint{}, false
}

func anything(string) bool { return true }

// addHinted adds text[start:end] if its key has a hint that the value matches.
func (t *keyTable) addHinted(found []Finding, text, key string, start, end int) []Finding {
	h, ok := t.find(key)
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

// addKeyEvidence adds a key at start if it is evidence for names.
func (t *keyTable) addEvidence(found []Finding, key string, start int) []Finding {
	if h, ok := t.find(key); ok && h.evidence != "" {
		return append(found, Finding{Type: h.evidence, Start: start, End: start + len(key)})
	}
	return found
}

// SameKey reports whether two keys differ in case and separators only.
func SameKey(a, b string) bool { return normalize(a) == normalize(b) }

func normalize(k string) string {
	var out []byte
	for i := range len(k) {
		switch c := class[k[i]]; {
		case c&upper != 0:
			out = append(out, k[i]|0x20)
		case c&(alnum|high) != 0:
			out = append(out, k[i])
		}
	}
	return string(out)
}
