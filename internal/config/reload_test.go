package config

import (
	"slices"
	"testing"
)

const started = `
profile: standard
http: {token: 0123456789abcdef, tokens: {acme: fedcba9876543210, other: 00112233445566778}}
sandbox: {timeout: 20s}
tiers: {free: {tenants: ['a*'], servers: [crm]}}
tenants: {acme: {tier: free}, other: {profile: full}}
subsets: {sales: [crm]}
`

func TestFixedSettingsAreKept(t *testing.T) {
	for _, c := range []struct {
		name, text      string
		differ, changed []string
	}{
		{"nothing", started, nil, nil},
		{"each key of a tenant", `
http: {token: 0123456789abcdef, tokens: {acme: fedcba9876543211}}
profile: lean
sandbox: {timeout: 10s}
tiers: {free: {tenants: ['a*'], servers: [mail]}, pro: {}}
tenants: {acme: {tier: pro}}
subsets: {few: [crm]}
policy: {default: block}
quotas: {calls_per_day: 5}
`, nil, []string{"http.tokens.acme", "http.tokens.other", "policy.default", "profile", "quotas.calls_per_day", "sandbox.timeout", "subsets.few", "subsets.sales", "tenants.acme", "tenants.other", "tiers.free", "tiers.pro"}},
		{"fixed keys", started + "data_dir: /elsewhere\nlog: {level: debug}\nhttp.drain: 3s\ntelemetry: {traces: {endpoint: " +
			"console}}\npii: {key: keyring, mode: strict}\nrecent_code: none\n",
			[]string{"data_dir", "http.drain", "log", "pii.key", "recent_code", "telemetry"}, []string{"pii.mode"}},
		{"a command for the master key", started + "pii: {key_command: [op, read, x]}\n", []string{"pii.key_command"}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			running, err := loads(t, started)
			if err != nil {
				t.Fatal(err)
			}
			next, err := loads(t, c.text)
			if err != nil {
				t.Fatal(err)
			}
			next.DataDir, running.DataDir = orElse(next.DataDir), orElse(running.DataDir)
			next.CacheDir, running.CacheDir = "", ""
			if changed := next.ChangedKeys(running); !slices.Equal(changed, c.changed) {
				t.Errorf("changed %q, want %q", changed, c.changed)
			}
			if differ := next.KeepFixed(running, true); !slices.Equal(differ, c.differ) {
				t.Errorf("differ %q, want %q", differ, c.differ)
			}
			if next.DataDir != running.DataDir || next.Log != running.Log || next.PII.Key != running.PII.Key {
				t.Errorf("the fixed settings were replaced: %+v", next)
			}
		})
	}
}

// orElse replaces the directory of a test, which differs each time.
func orElse(dir string) string {
	if dir == "/elsewhere" {
		return dir
	}
	return "/data"
}

// A daemon that was started without authentication cannot begin to require it, and the
// profile of a feature offers something else.
func TestFacesAreKept(t *testing.T) {
	own := Section{Profile: Profile{Name: "own"}}
	running, err := loads(t, "profile: standard\n", own)
	if err != nil {
		t.Fatal(err)
	}
	next, err := loads(t, "profile: own\nhttp: {token: 0123456789abcdef, api_keys: true}\ntiers: {free: {servers: [a]}, full: {profile: "+
		"full}}\n", own)
	if err != nil {
		t.Fatal(err)
	}
	next.DataDir, next.CacheDir = running.DataDir, running.CacheDir
	if differ := next.KeepFixed(running, false); !slices.Equal(differ, []string{"http.api_keys", "http.token", "profile"}) {
		t.Errorf("%q", differ)
	}
	if next.Profile != "standard" || next.HTTP.Authenticated() || next.Tenants.find("free").
		config.Profile != "standard" || next.Tenants.find("full").config.Profile != "full" {
		t.Errorf("%+v", next)
	}
}

func TestFixedKeysExist(t *testing.T) {
	for key := range (&Config{}).fixed() {
		if key != "SERVERS_DIR" && key != "SKILLS_DIR" && !core.known(key) {
			t.Errorf("%s is not a key", key)
		}
	}
}
