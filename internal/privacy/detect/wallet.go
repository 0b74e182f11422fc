package detect

var ethereumAddresses = recognizer{
	Type:    Crypto,
	Anchors: []anchor{{First: "0", Has: digit, Letter: true, Lacks: joint, Least: 42, Most: 42}},
	Find: func(p *passage, start, end int) {
		if s := p.text[start+2 : end]; p.at(start+1) == 'x' && hexadecimal(s) && eip55(s) {
			p.add(start, end, 0.97)
		}
	},
	Examples: []string{
		"«0x52908400098527886E0F7030069857D2E4169EE7» «0xde709f2102306220921060314715629080e2fb77»",
		"0x52908400098527886e0F7030069857D2E4169EE7, 0x0000000000000000000000000000000000000000 and 0xdeadbeef00",
	},
}

var segwitAddresses = recognizer{
	Type:    Crypto,
	Anchors: []anchor{{First: "BLTblt", Has: digit, Lacks: joint, Least: 26, Most: 90}},
	Find: func(p *passage, start, end int) {
		if bech32(p.text[start:end]) {
			p.add(start, end, 0.99)
		}
	},
	Examples: []string{
		"«bc1qar0srrr7xfkvy5l643lydnw9re59gtzzwf5mdq»",
		"bc1qar0srrr7xfkvy5l643lydnw9re59gtzzwf5mdr",
	},
}

var coinAddresses = recognizer{
	Type:    Crypto,
	Anchors: []anchor{{First: base58Firsts, Has: digit, Letter: true, Lacks: joint, Least: 26, Most: 35}},
	Find: func(p *passage, start, end int) {
		if base58check(p.text[start:end]) {
			p.add(start, end, 0.99)
		}
	},
	Examples: []string{
		"«1BvBMSEYstWetqTFn5Au4m4GFg7xJaNVN2»",
		"1BvBMSEYstWetqTFn5Au4m4GFg7xJaNVN3",
	},
}
