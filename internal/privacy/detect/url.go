package detect

import "strings"

const maxUserinfo = 256

var urlCredentials = recognizer{
	Type:    URLCredentials,
	Anchors: []anchor{{Text: "://"}},
	Find:    findURLCredentials,
	Examples: []string{
		"postgres://«dbuser:S3cr3tP4ss»@db.example.com:5432/app redis://«:only»@h/0",
		"https://user@example.com/ https://example.com/a:b@c https://${USER}:${PASS}@host/ ftp://u:****@h/",
	},
}

// findURLCredentials examines the text after "://" for "user:password@".
func findURLCredentials(p *passage, _, start int) {
	at, colon := -1, -1
	for i := start; i < len(p.text) && i-start < maxUserinfo; i++ {
		b := p.text[i]
		if b == '@' {
			at = i
		}
		if b == ':' && colon < 0 {
			colon = i
		}
		if b <= ' ' || b >= 0x7F || strings.IndexByte(`/?#"'<>\`+"`", b) >= 0 {
			break
		}
	}
	if colon < 0 || at < colon+2 || !p.is(at+1, alnum) && p.at(at+1) != '[' {
		return
	}
	secret := p.text[colon+1 : at]
	if strings.HasPrefix(secret, "$") || strings.HasPrefix(secret, "{") || strings.HasPrefix(secret, "%s") || strings.Trim(secret,
		"*x.") == "" {
		return
	}
	p.add(start, at, 0.99)
}

// webhooks has the beginnings of URLs whose path is a secret, and the minimum length of its
// last part.
var webhooks = []struct {
	prefix string
	least  int
}{
	{"hooks.slack.com/services/", 20}, {"hooks.slack.com/workflows/", 20}, {"hooks.slack.com/triggers/", 20},
	{"discord.com/api/webhooks/", 60}, {"discordapp.com/api/webhooks/", 60},
}

var webhookPaths = recognizer{
	Type:    APIKey,
	Anchors: []anchor{{Text: "://"}},
	Find:    findWebhook,
	Examples: []string{
		"https://hooks.slack.com/services/«T024BE7LD/B0DCX5P7Q/Zx81kQp0vM2nB7cLd9Rt4YwE»",
		"https://hooks.slack.com/services/T000/B000/XXXX and https://slack.com/services/T024BE7LD/B0DCX5P7Q/Zx81kQp0vM2nB7cLd9Rt4YwE",
	},
}

// findWebhook examines the text after "://" for a URL that permits anyone to post.
func findWebhook(p *passage, _, start int) {
	if b := p.at(start); b != 'h' && b != 'd' {
		return
	}
	for _, w := range webhooks {
		if !strings.HasPrefix(p.text[start:], w.prefix) {
			continue
		}
		first := start + len(w.prefix)
		end := first
		for end-first < maxSecret && (p.is(end, tokens) || p.at(end) == '/') {
			end++
		}
		path := p.text[first:end]
		if i := strings.LastIndexByte(path, '/'); i > 0 && len(path)-i > w.least && !placeholder(path) && mixed(path) {
			p.add(first, end, 0.95)
		}
	}
}

var userOptions = recognizer{
	Type:    APIKey,
	Anchors: []anchor{{Text: ":"}},
	Find:    findUserOption,
	Examples: []string{
		"curl -u '«admin:s3cr3tPw99»' https://h/ && curl --user=«admin:s3cr3tPw99» https://h/",
		"curl -u a:$B https://h/ && date -u 12:30",
		"run -u admin:s3cr3tPw99",
	},
}

// findUserOption examines the ':' of curl's "-u user:password".
func findUserOption(p *passage, colon, _ int) {
	first := colon
	for colon-first < 64 && (p.is(first-1, tokens) || p.at(first-1) == '.' || p.at(first-1) == '@') {
		first--
	}
	if first == colon || first < 4 {
		return
	}
	i, quote := first, byte(0)
	if b := p.text[i-1]; b == '"' || b == '\'' {
		i, quote = i-1, b
	}
	before := strings.TrimRight(p.text[max(0, i-12):i], " =")
	if !strings.HasSuffix(before, " -u") && !strings.HasSuffix(before, " --user") || !strings.Contains(p.text[max(0, i-200):i], "curl") {
		return
	}
	secret := assignedValue(p, colon+1, quote, password)
	if len(secret) < 4 || secret == p.text[first:colon] || strings.ContainsAny(secret, "${}<>") || placeholder(secret) {
		return
	}
	p.add(first, colon+1+len(secret), 0.8)
}
