package detect

import "strings"

// keyFormats has the formats of keys without a prefix that identifies their issuer.
var keyFormats = []recognizer{
	{ // Telegram
		Type:    APIKey,
		Anchors: []anchor{{First: decimals, Lacks: joint, Least: 5, Most: 16, After: ":"}},
		Find: func(p *passage, start, end int) {
			if isDigits(p.text[start:end]) && p.at(end+1) == 'A' {
				addParts(p, start, end, ':', 35, 35)
			}
		},
		Examples: []string{
			"bot «110201543:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw5»",
			"110201543:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw, 12:30",
		},
	}, { // Discord
		Type:    APIKey,
		Anchors: []anchor{{First: "MNO", Has: digit, Least: 24, Most: 28, After: "."}},
		Find: func(p *passage, start, end int) {
			if second := p.tokenEnd(end+1, maxSecret); second-end == 7 {
				addParts(p, start, second, '.', 27, 38)
			}
		},
		Examples: []string{
			"«MTk4NjIyNDgzNDcxOTI1MjQ4.Cl2FMQ.ZnCjm1XVW7vRze4b7Cq4se7kKWs»",
			"MTk4NjIyNDgzNDcxOTI1MjQ4.Cl2FM.ZnCjm1XVW7vRze4b7Cq4se7kKWs",
		},
	}, { // MaxMind
		Type:    APIKey,
		Anchors: []anchor{{Has: digit, Least: 40, Most: 40}},
		Find: func(p *passage, start, end int) {
			if s := p.text[start:end]; s[6] == '_' && strings.HasSuffix(s, "_mmk") {
				p.add(start, end, 0.95)
			}
		},
		Examples: []string{
			"«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»",
			"aB3dE6-q8Rt5Yw2Zk9Lm4Np7Vx1Cj6Hf0Gs3_mmk",
		},
	}, { // Airtable
		Type:    APIKey,
		Anchors: []anchor{{First: "p", Has: digit, Least: 17, Most: 17, After: "."}},
		Find: func(p *passage, start, end int) {
			if strings.HasPrefix(p.text[start:], "pat") {
				addParts(p, start, end, '.', 64, 64)
			}
		},
		Examples: []string{
			"«patA1b2C3d4E5f6G7.4f1d9a7c03be52681f4d9a7c03be52680e9d7c6b5a4f3e2d1c0b9a8f7e6d5c4b»",
			"patA1b2C3d4E5f6G7.example",
		},
	}, { // Terraform
		Type:    APIKey,
		Anchors: []anchor{{Has: digit, Least: 14, Most: 14, After: "."}},
		Find: func(p *passage, start, end int) {
			if strings.HasPrefix(p.text[end:], ".atlasv1.") {
				addParts(p, start, end+len(".atlasv1"), '.', 60, 70)
			}
		},
		Examples: []string{
			"«A1b2C3d4E5f6G7.atlasv1.q8w7e6r5t4y3u2i1o0p9a8s7d6f5g4h3j2k1l0z9x8c7v6b5n4m3q2w1e0r9»",
			"A1b2C3d4E5f6G7.atlasv2.x",
		},
	}, { // Mailchimp
		Type:    APIKey,
		Anchors: []anchor{{Has: digit, Least: 36, Most: 37}},
		Find: func(p *passage, start, end int) {
			if s := p.text[start:end]; s[32:35] == "-us" && isDigits(s[35:]) && hexadecimal(s[:32]) && strings.ToLower(s) == s {
				p.add(start, end, 0.9)
			}
		},
		Examples: []string{
			"«0e9d7c6b5a4f3e2d1c0b9a8f7e6d5c4b-us12»",
			"0e9d7c6b5a4f3e2d1c0b9a8f7e6d5c4b-eu12",
		},
	}, { // Microsoft Entra: the '~' is the sixth character
		Type:    APIKey,
		Anchors: []anchor{{Text: "~"}},
		Find:    findEntraSecret,
		Examples: []string{
			"«a1b8Q~q8w7e6r5t4y3u2i1o0p9a8s7d6f5g4h3j2»",
			"a1b8R~q8w7e6r5t4y3u2i1o0p9a8s7d6f5g4h3j2, ~/x",
		},
	},
}

// addParts adds a key that begins at start and has sep at end, followed by a token
// of least to most bytes.
func addParts(p *passage, start, end int, sep byte, least, most int) {
	stop := p.tokenEnd(end+1, maxSecret)
	if n := stop - end - 1; p.at(end) == sep && n >= least && n <= most && entropy(p.text[end+1:stop]) > 3 {
		p.add(start, stop, 0.95)
	}
}

// findEntraSecret examines a '~'.
func findEntraSecret(p *passage, at, _ int) {
	start := at - 5
	if start < 0 || p.at(at-1) != 'Q' || !p.is(at-2, digit) || p.is(start-1, tokens) {
		return
	}
	end := at + 1
	for end-at < 40 && (p.is(end, tokens) || p.at(end) == '.' || p.at(end) == '~') {
		end++
	}
	if n := end - at - 1; n >= 31 && n <= 34 && entropy(p.text[start:end]) > 3 {
		p.add(start, end, 0.95)
	}
}
