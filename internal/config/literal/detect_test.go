package literal

import (
	"strings"
	"testing"
)

func TestSecretsIn(t *testing.T) {
	for _, tc := range []struct{ name, value, want string }{
		{"GITHUB_TOKEN", "x", "‹x›"},
		{"apiKey", "abc", "‹abc›"},
		{"DB_PASSWORD", "1234", "‹1234›"},
		{"DB_PASS", "/+abc=", "‹/+abc=›"},
		{"Authorization", "Bearer abc", "Bearer ‹abc›"},
		{"Authorization", "abc", "‹abc›"},
		{"Authorization", "Bearer ${T}", "Bearer ${T}"},
		{"X-Api-Key", "${K}", "${K}"},
		{"TOKEN", "a${B}c", "‹a›${B}‹c›"},
		{"COOKIE", "sid=1; a=2", "‹sid=1; a=2›"},
		{"SLACK_WEBHOOK_URL", "https://hooks.slack.com/services/T0/B0/xyz", "‹https://hooks.slack.com/services/T0/B0/xyz›"},
		{"PRIVATE_KEY", "-----BEGIN X-----\nabc\n-----END X-----", "‹-----BEGIN X-----\nabc\n-----END X-----›"},
		{"DATABASE_URL", "postgres://u:p%40ss@h:5432/d", "postgres://u:‹p%40ss›@h:5432/d"},
		{"REDIS", "redis://:p4ss@h", "redis://:‹p4ss›@h"},
		{"REPO", "https://abcdefghijkl@github.com/x", "https://‹abcdefghijkl›@github.com/x"},
		{"DSN_TEXT", "host=h password=pw", "‹host=h password=pw›"},
		{"ODBC", "Server=h;Uid=u;Pwd=hunter2;", "Server=h;Uid=u;Pwd=‹hunter2›;"},
		{"HEADERS", `{"Authorization": "Bearer abc", "V": "2"}`, `{"Authorization": "Bearer ‹abc›", "V": "2"}`},
		{"", "https://x.example/mcp?api_key=abc&v=1", "https://x.example/mcp?api_key=‹abc›&v=1"},
		{"", "https://x.example/mcp?key=${K}", "https://x.example/mcp?key=${K}"},
		{"", "https://x.example/s/6a1b6a1b-6a1b-4a1b-8a1b-6a1b6a1b6a1b/mcp",
			"https://x.example/s/‹6a1b6a1b-6a1b-4a1b-8a1b-6a1b6a1b6a1b›/mcp"},
		{"", "--token=abc", "--token=‹abc›"},
		{"", "TOKEN=abc serve --api-key def --verbose", "TOKEN=‹abc› serve --api-key ‹def› --verbose"},
		{"", "Authorization: Bearer abc", "Authorization: Bearer ‹abc›"},
		{"", "Authorization:${AUTH}", "Authorization:${AUTH}"},
		{"NOTE", "use ghp_0123456789abcdefghij now", "use ‹ghp_0123456789abcdefghij› now"},
		{"", "eyJhbGciOiJI.eyJzdWIiOiIx.c2ln", "‹eyJhbGciOiJI.eyJzdWIiOiIx.c2ln›"},
		{"ID", "0123456789abcdef0123456789abcdef", "‹0123456789abcdef0123456789abcdef›"},
		{"ID", "aB3dE5fG7hI9jK1lM3nO5", "‹aB3dE5fG7hI9jK1lM3nO5›"},
		// Not secrets.
		{"MAX_TOKENS", "4096", "4096"},
		{"TOKEN_LIMIT", "8000", "8000"},
		{"GOOGLE_APPLICATION_CREDENTIALS", "/home/me/key.json", "/home/me/key.json"},
		{"SSH_AUTH_SOCK", "/run/agent", "/run/agent"},
		{"KEY_FILE", `C:\keys\a.pem`, `C:\keys\a.pem`},
		{"AUTH", "oauth", "oauth"},
		{"USE_AUTH", "true", "true"},
		{"AUTH_URL", "https://login.example/x", "https://login.example/x"},
		{"API_KEY", "", ""},
		{"AUTHOR", "ada", "ada"},
		{"KEYBOARD", "us", "us"},
		{"MODEL", "claude-sonnet-4-5-20250929", "claude-sonnet-4-5-20250929"},
		{"", "@modelcontextprotocol/server-sequential-thinking@2025.12.18", "@modelcontextprotocol/server-sequential-thinking@2025.12.18"},
		{"", "/home/ada/Documents/2024-Project-Notes-Final2", "/home/ada/Documents/2024-Project-Notes-Final2"},
		{"", "https://learn.microsoft.com/api/mcp", "https://learn.microsoft.com/api/mcp"},
		{"", "ghcr.io/github/github-mcp-server:v0.20.1", "ghcr.io/github/github-mcp-server:v0.20.1"},
		{"AZURE_TENANT_ID", "6a1b6a1b-6a1b-4a1b-8a1b-6a1b6a1b6a1b", "6a1b6a1b-6a1b-4a1b-8a1b-6a1b6a1b6a1b"},
	} {
		if got := marked(tc.value, secretsIn(tc.name, tc.value)); got != tc.want {
			t.Errorf("%s = %s\n got %s\nwant %s", tc.name, tc.value, got, tc.want)
		}
	}
}

func marked(value string, spans []span) string {
	var b strings.Builder
	at := 0
	for _, s := range spans {
		b.WriteString(value[at:s.from] + "‹" + value[s.from:s.to] + "›")
		at = s.to
	}
	return b.String() + value[at:]
}

// FuzzSecretsIn checks that spans lie in the value, in order, outside references.
func FuzzSecretsIn(f *testing.F) {
	for _, s := range []string{"Bearer ${A} x", "a://b:${C}@d?key=e${F}", "TOKEN=ghp_0123456789abcdefghij${X}", "Basic Basic a"} {
		f.Add("TOKEN", s)
		f.Add("", s)
	}
	f.Fuzz(func(t *testing.T, name, value string) {
		at := 0
		for _, s := range secretsIn(name, value) {
			if s.from < at || s.to <= s.from || s.to > len(value) || s.label == "" {
				t.Fatalf("%q in %q: %+v starts before %d", name, value, s, at)
			}
			at = s.to
			if ref := reference().FindString(value[s.from:s.to]); ref != "" {
				t.Fatalf("%q in %q: %+v contains %s", name, value, s, ref)
			}
		}
	})
}
