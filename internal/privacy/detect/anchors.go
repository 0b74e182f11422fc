package detect

// Byte classes.
const (
	upper   = 1 << iota
	lower   // a letter, as is upper
	digit   //
	joint   // '-' and '_', which join the parts of a token
	nonHex  // a letter that is not a hexadecimal digit
	trigger // a byte at which detectors run
	high    // part of a multi-byte character
	next    // after a token, a byte that makes detectors run
)

const (
	letter = upper | lower
	alnum  = letter | digit
	tokens = alnum | joint
)

var class = func() (c [256]uint8) {
	for b := range c {
		switch {
		case b >= '0' && b <= '9':
			c[b] = digit
		case b >= 'a' && b <= 'z':
			c[b] = lower
		case b >= 'A' && b <= 'Z':
			c[b] = upper
		case b == '-' || b == '_':
			c[b] = joint
		case b >= 0x80:
			c[b] = high
		}
		if lowered := b | 0x20; c[b]&letter != 0 && lowered > 'f' {
			c[b] |= nonHex
		}
	}
	for _, b := range []byte("@:+(~") {
		c[b] |= trigger
	}
	for _, b := range []byte(":~.=") {
		c[b] |= next
	}
	return c
}()

// anchors calls the detectors at the anchors of text[lo:hi]. Most bytes are handled by
// the first and the last loop only; each detector reads a bounded number of bytes.
func (p *pass) anchors(lo, hi int) {
	t := p.text
	i := lo
	if i > 0 && i < hi && class[t[i-1]]&tokens != 0 { // the token began in the previous block
		for i < hi && class[t[i]]&tokens != 0 {
			i++
		}
	}
	for i < hi {
		c := class[t[i]]
		if c&(tokens|trigger) == 0 {
			i++
			continue
		}
		if c&trigger != 0 {
			p.trigger(i)
			i++
			continue
		}
		start, seen := i, uint8(0)
		for i < len(t) && class[t[i]]&tokens != 0 {
			seen |= class[t[i]]
			i++
		}
		if seen&digit != 0 || i-start >= 16 || i < len(t) && class[t[i]]&next != 0 || i-start <= 4 && (t[start] == 'D' || t[start] == 'M' || t[start] == 'P') {
			if start = p.unescape(start); start < i {
				p.token(start, i, seen)
			}
		}
		if i-start >= 10 && t[start] == '-' {
			p.privateKey(start, i)
		}
	}
}

// unescape returns where the token at start begins if the letter in front is
// the second half of a JSON escape, as in "\n555-0100".
func (p *pass) unescape(start int) int {
	if start > 0 && p.text[start-1] == '\\' {
		switch p.text[start] {
		case 'n', 'r', 't':
			return start + 1
		}
	}
	return start
}

// continues reports whether the bytes at i continue a token: the byte before i is in
// one of the classes and not part of an escape.
func (p *pass) continues(i int, classes uint8) bool {
	return p.is(i-1, classes) && p.unescape(i-1) != i
}

func (p *pass) trigger(i int) {
	switch p.text[i] {
	case '@':
		p.email(i)
	case '+', '(':
		p.phone(i)
	case '~':
		p.azure(i)
	case ':':
		p.colon(i)
	}
}

// colon runs the detectors for values that contain ':'.
func (p *pass) colon(i int) {
	switch {
	case i+2 < len(p.text) && p.text[i+1] == '/' && p.text[i+2] == '/':
		p.urlCredentials(i + 3)
		p.webhook(i + 3)
	case i+1 < len(p.text) && p.text[i+1] == ':':
		if i == 0 || class[p.text[i-1]]&alnum == 0 && p.text[i-1] != ':' {
			p.ipv6(i)
		}
	}
	p.label(i)
	p.userOption(i)
}

// token runs the detectors for a run of letters, digits, '-' and '_'.
func (p *pass) token(start, end int, seen uint8) {
	behind, size := p.at(end), end-start
	if seen&(nonHex|joint) == 0 && size <= 4 {
		switch behind {
		case ':':
			p.macColons(start, end)
			p.ipv6(start)
		case '.':
			p.macDots(start, end)
		}
	}
	if seen&digit == 0 {
		p.salutation(start, end)
	} else {
		p.number(start, end, seen)
	}
	if seen&letter != 0 && (seen&digit != 0 || size >= 16 || class[behind]&next != 0) {
		p.secret(start, end)
	}
	if seen&digit != 0 && (size >= 4 || class[behind]&next != 0) || size >= 16 {
		p.assigned(start, end)
	}
	if seen&digit != 0 {
		p.mixedToken(start, end, seen)
	}
	if seen&joint != 0 && size >= 17 && p.text[end-3] == '-' && p.text[end-15] == '-' {
		p.macDashes(start, end)
	}
}

// mixedToken runs the detectors for a token of digits and other characters.
func (p *pass) mixedToken(start, end int, seen uint8) {
	behind, size := p.at(end), end-start
	if behind == ':' || behind == '.' || size >= 36 {
		p.patternKey(start, end)
	}
	if size >= 5 || behind == '*' {
		p.license(start, end)
	}
	if seen&letter == 0 {
		return
	}
	if seen&joint == 0 && size >= 26 && size <= 90 {
		p.wallet(start, end)
	}
	p.iban(start)
}

// number runs the detectors for a token that contains a number.
func (p *pass) number(start, end int, seen uint8) {
	if class[p.text[start]]&digit != 0 {
		p.ipv4(start)
		p.card(start)
		p.social(start)
		p.phone(start)
		if seen&letter == 0 {
			p.hintedNumber(start, end)
		}
		return
	}
	if tail := p.tail(start, end); end-tail >= 8 { // "passportnumberis912803456"
		p.hintedNumber(tail, end)
	}
}

// tail returns the start of the digits that end a token of letters and digits.
func (p *pass) tail(start, end int) int {
	i := end
	for i > start && class[p.text[i-1]]&digit != 0 {
		i--
	}
	if i == start || class[p.text[i-1]]&letter == 0 {
		return end
	}
	return i
}

// at returns the byte at i, or 0 outside the text.
func (p *pass) at(i int) byte {
	if i < 0 || i >= len(p.text) {
		return 0
	}
	return p.text[i]
}

// is reports whether the byte at i is in one of the classes.
func (p *pass) is(i int, classes uint8) bool { return class[p.at(i)]&classes != 0 }
