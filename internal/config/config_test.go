package config_test

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/audit"
	"github.com/sandpiper-mcp/sandpiper/internal/config"
	"github.com/sandpiper-mcp/sandpiper/internal/execution"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/home/approval"
	"github.com/sandpiper-mcp/sandpiper/internal/home/workspace"
	"github.com/sandpiper-mcp/sandpiper/internal/policy"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/admit"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/packages"
)

// sources writes files beneath a new directory: dir/work is the working
// directory, dir/home the home directory. A configuration in the working directory
// is named, as by --config; project leaves it to be found.
func sources(t *testing.T, files map[string]string, environ ...string) (config.Sources, string) {
	t.Helper()
	dir := t.TempDir()
	for _, d := range []string{"work", "home"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	home := filepath.Join(dir, "home")
	named := ""
	for _, name := range []string{"sandpiper.yaml", "config.yaml"} {
		if _, there := files["work/"+name]; there && named == "" {
			named = name
		}
	}
	return config.Sources{
		File:     named,
		Dir:      filepath.Join(dir, "work"),
		Features: sandboxFeatures,
		Environ:  append([]string{"HOME=" + home, "USERPROFILE=" + home, "APPDATA=" + home, "LOCALAPPDATA=" + home}, environ...),
	}, dir
}

func TestDefaults(t *testing.T) {
	src, dir := sources(t, nil)
	got, err := config.Load(src)
	if err != nil {
		t.Fatal(err)
	}
	want := &config.Config{
		Profile: "standard", Backend: "auto", Namespaces: "shared",
		Limits: execution.Limits{Timeout: 30 * time.Second, MaxTimeout: 300 * time.Second,
			MemoryMB: 500, MaxMemoryMB: 2048, MinMemoryMB: 64},
		Workspace: config.Workspace{
			Quota:   workspace.Quota{Bytes: 2 << 30, Files: 100_000, Reserve: 512 << 20},
			Results: home.Results{Age: 7 * 24 * time.Hour, Bytes: 512 << 20},
		},
		DataDir:  filepath.Join(dir, "home/.local/share/sandpiper"),
		CacheDir: filepath.Join(dir, "home/.cache/sandpiper"),
		UserDir:  filepath.Join(dir, "home/.config/sandpiper"),
		PII: config.PII{
			Mode:      "egress",
			Restore:   "auto",
			Addresses: "public",
			Scan:      detect.Config{Names: detect.Evidence},
			Tokens:    500_000,
			New:       50_000,
			Asked:     10_000,
		},
		Background:   config.Background{Keep: 24 * time.Hour, Timeout: time.Hour},
		Approvals:    config.Approvals{Timeout: 24 * time.Hour},
		Audit:        audit.Retention{Age: 365 * 24 * time.Hour, Bytes: 4000 << 20},
		Search:       config.Search{Learn: true},
		PackageLayer: "default", Packages: packages.Config{LockFile: filepath.Join(dir, "home/.config/sandpiper/pylock.sandpiper.toml"),
			LayerDir: filepath.Join(dir, "home/.cache/sandpiper/packages")},
	}
	// functions cannot be compared, hashes are not read
	got.Lookup, got.Sections, got.Keys, got.Given, got.Features, got.Policy.Sandboxes = nil, nil, nil, nil, nil, nil
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestEveryKeyIsParsed(t *testing.T) {
	src, dir := sources(t, map[string]string{"work/sandpiper.yaml": `
profile: lean   # few tools
sandbox: {backend: gvisor, namespaces: own, epoll: true, timeout: 10s, memory_mb: 200, max_timeout: 60, max_memory_mb: 400,
  concurrency: 4, queue: 0, requirements: ../r.txt, wheels: wheels,
  packages: [pandas, "numpy==2.3.*"], preload: [pandas, matplotlib.pyplot], package_layer: all, package_layers: {all: {packages: [x]}}}
sessions: {idle: 1h, per_tenant: 2, live: 3}
data_dir: data
cache_dir: ~/c
log:
  level: debug
  file: /var/log/sandpiper.log
audit: {max_age: 90d, max_mb: 500}
pii:
  mode: strict
  restore: deny
  names: never
  addresses: all
  key: keyring:sandpiper/vault
  flows: [{types: [EMAIL, BADGE], to: "crm.*", args: [to], decision: allow}, {to: "*", decision: deny}]
  patterns: [{type: BADGE, pattern: 'B-\d{6}'}]
  keys: {staff_no: STAFF}
  ttl: {default: 30d, EMAIL: 12h, STAFF: never}
  tokens: 1000
  tokens_per_hour: 100
  queries_per_hour: 10
policy:
  default: ask
  rules:
    - {tool: "*.delete_*", decision: block, reason: never}
    - name: large
      tool: [bank.pay, bank.send]
      server: b*
      tenant: acme
      when: |
        args.amount > 1000 &&
        tenant != 'ops'
      decision: ask
  budgets: [{name: mails, tool: "mail.send*", tenant: [a, b], calls: 20, per: hour}]
approvals: {timeout: 2h, via: operator}
workspace: {max_mb: 100, max_files: 200, reserve_mb: 0, results_age: never, results_max_mb: 5}
`})
	got, err := config.Load(src)
	if err != nil {
		t.Fatal(err)
	}
	want := &config.Config{
		Profile: "lean", Backend: "gvisor", Namespaces: "own", Epoll: true,
		Limits: execution.Limits{Timeout: 10 * time.Second, MaxTimeout: time.Minute,
			MemoryMB: 200, MaxMemoryMB: 400, MinMemoryMB: 64},
		Workspace:  config.Workspace{Quota: workspace.Quota{Bytes: 100 << 20, Files: 200}, Results: home.Results{Bytes: 5 << 20}},
		Admit:      admit.Config{Concurrent: 4, Queued: -1},
		Sessions:   execution.Sessions{Idle: time.Hour, PerTenant: 2, Live: 3},
		Background: config.Background{Keep: 24 * time.Hour, Timeout: time.Hour},
		Approvals:  config.Approvals{Timeout: 2 * time.Hour, Via: approval.ViaOperator},
		DataDir:    filepath.Join(dir, "work/data"),
		CacheDir:   filepath.Join(dir, "home/c"),
		UserDir:    filepath.Join(dir, "home/.config/sandpiper"),
		Packages: packages.Config{
			Requirements: []string{"pandas", "numpy==2.3.*"}, RequirementsFile: filepath.Join(dir, "r.txt"), WheelDir: filepath.Join(dir,
				"work/wheels"),
			LockFile: filepath.Join(dir, "work/pylock.sandpiper.toml"), LayerDir: filepath.Join(dir, "home/c/packages"),
		},
		Preload: []string{"pandas", "matplotlib.pyplot"}, PackageLayer: "all",
		PackageLayers: map[string]config.PackageLayer{"all": {Config: packages.Config{
			Requirements: []string{"x"}, LockFile: filepath.Join(dir, "work/pylock.sandpiper-all.toml"), LayerDir: filepath.Join(dir,
				"home/c/packages"),
		}}},
		PII: config.PII{
			Mode: "strict", Restore: "deny", Addresses: "all", Key: "keyring:sandpiper/vault",
			Flows: []redact.Flow{
				{Types: []detect.Type{"EMAIL", "BADGE"}, To: "crm.*", Args: []string{"to"}, Decision: "allow"},
				{To: "*", Decision: "deny"},
			},
			Scan: detect.Config{Names: detect.Never, Patterns: []detect.Pattern{{Type: "BADGE", Expr: `B-\d{6}`}},
				Keys: map[string]detect.Type{"staff_no": "STAFF"}},
			TTL:    map[detect.Type]time.Duration{"": 30 * 24 * time.Hour, "EMAIL": 12 * time.Hour, "STAFF": 0},
			Tokens: 1000, New: 100, Asked: 10,
		},
		Policy: policy.Config{
			Default: policy.Ask,
			Rules: []policy.Rule{
				{Scope: policy.Scope{Tools: []string{"*.delete_*"}}, Decision: policy.Block, Reason: "never", At: "sandpiper.yaml line 29"},
				{Name: "large", Scope: policy.Scope{Tools: []string{"bank.pay", "bank.send"}, Server: "b*", Tenants: []string{"acme"}},
					When: "args.amount > 1000 &&\ntenant != 'ops'\n", Decision: policy.Ask, At: "sandpiper.yaml line 30"},
			},
			Budgets: []policy.Budget{{Name: "mails", Scope: policy.Scope{Tools: []string{"mail.send*"}, Tenants: []string{"a", "b"}},
				Calls: 20, Per: policy.Hour, At: "sandpiper.yaml line 38"}},
		},
		Audit:  audit.Retention{Age: 90 * 24 * time.Hour, Bytes: 500 << 20},
		Search: config.Search{Learn: true},
		Log:    config.Log{Level: slog.LevelDebug, File: "/var/log/sandpiper.log"},
		Files:  []string{filepath.Join(dir, "work/sandpiper.yaml")},
	}
	if len(got.Sections) != 11 || got.Sections["pii"] == got.Sections["audit"] {
		t.Errorf("hashes of sections: %v", got.Sections)
	}
	got.Lookup, got.Sections, got.Keys, got.Given, got.Features, got.Policy.Sandboxes = nil, nil, nil, nil, nil, nil
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestLaterSourcesWin(t *testing.T) {
	files := map[string]string{
		"home/.config/sandpiper/sandpiper.yaml": "profile: full",
		"work/sandpiper.yaml":                   "profile: lean\nsandbox: {timeout: 1s, memory_mb: 101, queue: 1}",
		"work/.env": "# ours\nexport SANDPIPER_SANDBOX_TIMEOUT='2s' # " +
			"quoted\nSANDPIPER_SANDBOX_MEMORY_MB=102 # bare\nOTHER=x\nSANDPIPER_SANDBOX_QUEUE=2\n",
	}
	src, _ := sources(t, files, "SANDPIPER_SANDBOX_MEMORY_MB=103", "SANDPIPER_SANDBOX_QUEUE=3", "LOG_LEVEL=error",
		"SANDPIPER_LOG_LEVEL=debug")
	src.Flags = map[string]string{"sandbox.queue": "4"}
	got, err := config.Load(src)
	if err != nil {
		t.Fatal(err)
	}
	if got.Profile != "lean" || got.Limits.Timeout != 2*time.Second || got.Limits.MemoryMB != 103 || got.Admit.Queued != 4 ||
		got.Log.Level != slog.LevelDebug {
		t.Errorf("%+v", got)
	}
}

func TestConfigurationFileLookup(t *testing.T) {
	user := "home/.config/sandpiper/sandpiper.yaml"
	for _, tc := range []struct {
		name    string
		files   []string
		file    string
		environ string
		want    string
	}{
		{name: "the user's and an untrusted one", files: []string{"work/sandpiper.yaml", user}, want: user},
		{name: "the user's", files: []string{user}, want: user},
		{name: "named", files: []string{"work/sandpiper.yaml", "work/other.yaml"}, file: "other.yaml", want: "work/other.yaml"},
		{name: "named by the environment", files: []string{"work/sandpiper.yaml", "home/x.yaml"}, environ: "SANDPIPER_CONFIG=~/x.yaml",
			want: "home/x.yaml"},
		{name: "somebody else's config.yaml", files: []string{"work/config.yaml"}, want: ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			files := make(map[string]string)
			for _, f := range tc.files {
				files[f] = "profile: lean"
			}
			src, dir := sources(t, files, tc.environ)
			src.File = tc.file // not what sources named
			got, err := config.Load(src)
			if err != nil {
				t.Fatal(err)
			}
			var want []string
			if tc.want != "" {
				want = []string{filepath.Join(dir, tc.want)}
			}
			if d := cmp.Diff(want, got.Files); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestErrorsStateThePosition(t *testing.T) {
	for _, tc := range []struct {
		name, yaml, dotenv, environ string
		kind                        fault.Kind
		want                        string
	}{
		{name: "a misspelt key", yaml: "profile: lean\nsandbox:\n  timout: 30s", kind: fault.Invalid,
			want: `sandpiper.yaml line 3: there is no key "sandbox.timout"; did you mean "sandbox.timeout"?`},
		{name: "a key in no section", yaml: "timeout: 30s", kind: fault.Invalid,
			want: `line 1: there is no key "timeout"; did you mean "sandbox.timeout"?`},
		{name: "a misspelt section", yaml: "sandbx: {memory_mb: 3}", kind: fault.Invalid,
			want: `line 1: there is no key "sandbx"; did you mean "sandbox"?`},
		{name: "a misspelt variable", environ: "SANDPIPER_PROFIL=lean", kind: fault.Invalid,
			want: `there is no variable SANDPIPER_PROFIL; did you mean SANDPIPER_PROFILE?`},
		{name: "a misspelt variable in .env", dotenv: "\nSANDPIPER_LOG_LEVLE=info", kind: fault.Invalid,
			want: `.env line 2: there is no variable SANDPIPER_LOG_LEVLE; did you mean SANDPIPER_LOG_LEVEL?`},
		{name: "a profile", yaml: "profile: big", kind: fault.Invalid, want: `line 1: profile is "big"; it must be lean, standard or full`},
		{name: "packages as a text", yaml: "sandbox:\n  packages: pandas", kind: fault.Invalid,
			want: "sandpiper.yaml line 2: sandbox.packages must be a list"},
		{name: "packages as a mapping", yaml: "sandbox: {packages: {pandas: 2}}", kind: fault.Invalid,
			want: "sandbox.packages must be a list"},
		{name: "a number as a package", yaml: "sandbox: {packages: [7]}", kind: fault.Invalid, want: `sandbox.packages contains "7"`},
		{name: "no module", yaml: "sandbox: {preload: ['import os']}", kind: fault.Invalid,
			want: `sandbox.preload contains "import os"; each item must be the name of a module`},
		{name: "a backend", yaml: "sandbox: {backend: docker}", kind: fault.Invalid,
			want: `sandbox.backend is "docker"; it must be auto, process, gvisor or microvm`},
		{name: "a duration", yaml: "sandbox: {timeout: soon}", kind: fault.Invalid,
			want: `sandbox.timeout is "soon"; it must be a time of at most 24h, such as 30s or 5m`},
		{name: "a negative duration", environ: "SANDPIPER_SANDBOX_MAX_TIMEOUT=-1s", kind: fault.Invalid,
			want: `SANDPIPER_SANDBOX_MAX_TIMEOUT: sandbox.max_timeout is "-1s"`},
		{name: "a number", yaml: "sandbox: {memory_mb: 1.5}", kind: fault.Invalid, want: `"1.5"; it must be a whole number from 1 to`},
		{name: "too little memory", yaml: "sandbox: {memory_mb: 10}", kind: fault.Invalid,
			want: `"10"; it must be at least 64, which Python needs to start`},
		{name: "a default above its cap", yaml: "sandbox: {timeout: 301s}", kind: fault.Invalid,
			want: `"301s"; it must be at most sandbox.max_timeout`},
		{name: "memory above its cap", yaml: "sandbox: {memory_mb: 600, max_memory_mb: 512}", kind: fault.Invalid,
			want: `"600"; it must be at most sandbox.max_memory_mb`},
		{name: "a list for a value", yaml: "data_dir: [a]", kind: fault.Invalid, want: "data_dir is a list; it must be a single value"},
		{name: "a mapping for a value", yaml: "profile: {}", kind: fault.Invalid, want: "profile is a mapping; it must be a single value"},
		{name: "a value for a section", yaml: "log: debug", kind: fault.Invalid, want: "log must contain keys such as file, level"},
		{name: "a log level", yaml: "log: {level: loud}", kind: fault.Invalid,
			want: `log.level is "loud"; it must be debug, info, warn or error`},
		{name: "a list of tokens", yaml: "http: {tokens: [{token: x}]}", kind: fault.Invalid,
			want: "http.tokens must map names to values, such as NAME: VALUE"},
		{name: "a text for headers", yaml: "telemetry: {traces: {headers: x}}", kind: fault.Invalid,
			want: "telemetry.traces.headers must map names to values"},
		{name: "no mapping", yaml: "- a\n- b", kind: fault.Invalid, want: "the file must contain keys such as profile"},
		{name: "an alias", yaml: "data_dir: &a x\ncache_dir: *a", kind: fault.Invalid,
			want: "line 2: cache_dir is written with a YAML alias, which is not supported; write the value"},
		{name: "two documents", yaml: "profile: lean\n---\nprofile: full", kind: fault.Invalid, want: "more than one document"},
		{name: "a key twice", yaml: "profile: lean\nprofile: full", kind: fault.Invalid,
			want: `sandpiper.yaml line 2: the key "profile" is in line 1 already; merge the two into one`},
		{name: "an indentation", yaml: "log:\n  level: info\n   file: x", kind: fault.Invalid,
			want: "; check the indentation of this line"},
		{name: "broken YAML", yaml: "profile: [lean", kind: fault.Invalid, want: "sandpiper.yaml line 1 is not YAML"},
		{name: "a server without a way to it", yaml: "profile: lean\nservers:\n  github: {category: dev}", kind: fault.Invalid,
			want: "sandpiper.yaml line 3: server github has neither command nor url"},
		{name: "a server with two", yaml: "servers:\n  github: {command: npx, url: 'https://x.example'}", kind: fault.Invalid,
			want: "server github has both command and url"},
		{name: "a server's unknown key", yaml: "servers:\n  github: {comand: npx}", kind: fault.Invalid,
			want: `line 2: server github: there is no key "comand"; did you mean "command"?`},
		{name: "arguments that are no list", yaml: "servers:\n  github: {command: npx, args: -y}", kind: fault.Invalid,
			want: "server github: args must be a list of texts"},
		{name: "a wrong transport", yaml: "servers:\n  x: {url: 'https://x.example', type: websocket}", kind: fault.Invalid,
			want: `type is "websocket"; it must be stdio, http or sse`},
		{name: "a transport that does not fit", yaml: "servers:\n  x: {command: npx, type: sse}", kind: fault.Invalid,
			want: "transport sse conflicts with"},
		{name: "an address that is none", yaml: "servers:\n  x: {url: 'ftp://x.example'}", kind: fault.Invalid,
			want: "url must begin with http"},
		{name: "a server that is a text", yaml: "servers:\n  x: npx", kind: fault.Invalid, want: "server x must contain command or url"},
		{name: "servers that are a text", yaml: "servers: npx", kind: fault.Invalid, want: "servers must contain servers by name"},
		{name: "a time that is none", yaml: "servers:\n  x: {command: npx, timeout: 5}", kind: fault.Invalid,
			want: `timeout is "5"; it must be a time`},
		{name: "a catalog that is no list", yaml: "catalog: x.json", kind: fault.Invalid, want: "catalog must be a list of files"},
		{name: "a mode of privacy", yaml: "pii: {mode: strickt}", kind: fault.Invalid,
			want: `pii.mode is "strickt"; it must be off, egress or strict`},
		{name: "two master keys", yaml: "pii:\n  key: file\n  key_command: [op]\n", kind: fault.Invalid,
			want: "sandpiper.yaml line 2: pii.key is set, and sandpiper.yaml line 3: pii.key_command"},
		{name: "a command line", yaml: "pii: {key_command: op read x}", kind: fault.Invalid,
			want: "pii.key_command must be a list of a program and its arguments"},
		{name: "an empty command", yaml: "pii: {key_command: []}", kind: fault.Invalid,
			want: "pii.key_command must be a list of a program and its arguments"},
		{name: "a command without a program", yaml: "pii: {key_command: ['', x]}", kind: fault.Invalid,
			want: "pii.key_command must be a list of a program and its arguments"},
		{name: "the command of a tenant", yaml: "tenants: {acme: {pii: {key_command: [op]}}}", kind: fault.Invalid,
			want: "pii.key_command"},
		{name: "a rule for names", yaml: "pii: {names: sometimes}", kind: fault.Invalid,
			want: `pii.names is "sometimes"; it must be never, evidence or always`},
		{name: "names in prose", yaml: "pii: {prose_names: maybe}", kind: fault.Invalid,
			want: `pii.prose_names is "maybe"; it must be true or false`},
		{name: "another way of approval", yaml: "approvals: {via: phone}", kind: fault.Invalid,
			want: `approvals.via is "phone"; it must be both, client or operator`},
		{name: "other addresses", yaml: "pii: {addresses: private}", kind: fault.Invalid,
			want: `pii.addresses is "private"; it must be public or all`},
		{name: "a type that there is not", yaml: "pii: {flows: [{types: [MAIL], to: crm.*, decision: allow}]}", kind: fault.Invalid,
			want: `there is no type "MAIL"; did you mean EMAIL?`},
		{name: "a flow without a decision", yaml: "pii: {flows: [{to: crm.*}]}", kind: fault.Invalid,
			want: `flow 1: decision "" is not valid`},
		{name: "a flow to nowhere", yaml: "pii: {flows: [{to: 'crm.[', decision: deny}]}", kind: fault.Invalid,
			want: `pattern "crm.[" is not valid`},
		{name: "a key of a flow", yaml: "pii: {flows: [{too: x, decision: deny}]}", kind: fault.Invalid,
			want: `entry 1 of pii.flows has no key "too"; did you mean "to"?`},
		{name: "a flow that is a text", yaml: "pii: {flows: [x]}", kind: fault.Invalid,
			want: `entry 1 of pii.flows must contain keys such as`},
		{name: "a tool of an exception", yaml: "pii: {exceptions: [{tool: 'ci.['}]}", kind: fault.Invalid,
			want: `exception 1: pattern "ci.[" is not valid`},
		{name: "a type of an exception", yaml: "pii: {exceptions: [{types: [MAIL]}]}", kind: fault.Invalid,
			want: `there is no type "MAIL"; did you mean EMAIL?`},
		{name: "flows that are no list", yaml: "pii: {flows: {to: x}}", kind: fault.Invalid, want: `pii.flows must be a list`},
		{name: "a pattern that is none", yaml: "pii: {patterns: [{type: X_Y, pattern: '('}]}", kind: fault.Invalid,
			want: `not a valid regular expression`},
		{name: "a type in small letters", yaml: "pii: {keys: {badge: badge}}", kind: fault.Invalid,
			want: `invalid type of personal data "badge"`},
		{name: "a time", yaml: "pii: {ttl: {EMAIL: soon}}", kind: fault.Invalid,
			want: `pii.ttl.EMAIL is "soon"; it must be a time such as 30d or 12h, or never`},
		{name: "a time of what there is not", yaml: "pii: {ttl: {MAIL: 1d}}", kind: fault.Invalid, want: `there is no type "MAIL"`},
		{name: "a key of policy", yaml: "policy: {rule: []}", kind: fault.Invalid,
			want: `line 1: there is no key "policy.rule"; did you mean "policy.rules"?`},
		{name: "a default of policy", yaml: "policy:\n  default: deny", kind: fault.Invalid,
			want: `line 2: policy.default is "deny"; it must be allow, ask or block`},
		{name: "rules that are no list", yaml: "policy: {rules: {tool: x}}", kind: fault.Invalid,
			want: `line 1: policy.rules must be a list`},
		{name: "a rule that is a text", yaml: "policy:\n  rules:\n    - block", kind: fault.Invalid,
			want: `line 3: entry 1 of policy.rules must contain keys such as decision, name`},
		{name: "a key of a rule", yaml: "policy:\n  rules:\n    - {tool: a.b, decision: ask}\n    - tools: a.b\n      decision: ask",
			kind: fault.Invalid, want: `line 4: entry 2 of policy.rules has no key "tools"; did you mean "tool"?`},
		{name: "a tool of a rule", yaml: "policy: {rules: [{tool: {a: b}}]}", kind: fault.Invalid,
			want: `entry 1 of policy.rules tool must be a text`},
		{name: "no tools of a rule", yaml: "policy: {rules: [{tool: []}]}", kind: fault.Invalid,
			want: `entry 1 of policy.rules tool must be a text or a list of texts`},
		{name: "an empty condition", yaml: "policy: {rules: [{decision: allow, when: ' '}]}", kind: fault.Invalid,
			want: `entry 1 of policy.rules when is empty; leave it out if all calls are meant`},
		{name: "no condition", yaml: "policy: {rules: [{decision: allow, when: }]}", kind: fault.Invalid,
			want: `entry 1 of policy.rules when is empty`},
		{name: "an empty server", yaml: "policy: {rules: [{decision: allow, server: ''}]}", kind: fault.Invalid,
			want: `entry 1 of policy.rules server is empty`},
		{name: "calls that are no number", yaml: "policy: {budgets: [{calls: 1.5, per: hour}]}", kind: fault.Invalid,
			want: `entry 1 of policy.budgets calls must be a whole number`},
		{name: "too many calls", yaml: "policy: {budgets: [{calls: 99999999999999999999, per: hour}]}", kind: fault.Invalid,
			want: `entry 1 of policy.budgets calls must be a whole number`},
		{name: "rules in the environment", environ: "SANDPIPER_POLICY_RULES=x", kind: fault.Invalid,
			want: `policy.rules can only be set in a configuration file`},
		{name: "a sandbox type", yaml: "sandbox_type: docker", kind: fault.Unavailable, want: "line 1: sandbox_type docker selects"},
		{name: "several mistakes", yaml: "profil: lean\nsandbox: {timout: 1s}\npii: {mode: of}", kind: fault.Invalid,
			want: `line 1: there is no key "profil"; did you mean "profile"? sandpiper.yaml line 2: there is no key "sandbox.timout"; ` +
				`did you mean "sandbox.timeout"? sandpiper.yaml line 3: pii.mode is "of"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			files := make(map[string]string)
			if tc.yaml != "" {
				files["work/sandpiper.yaml"] = tc.yaml
			}
			if tc.dotenv != "" {
				files["home/.config/sandpiper/.env"] = tc.dotenv
			}
			src, _ := sources(t, files, tc.environ)
			got, err := config.Load(src)
			if err == nil {
				t.Fatalf("loaded %+v", got)
			}
			if fault.KindOf(err) != tc.kind || !strings.Contains(fault.Message(err), tc.want) {
				t.Errorf("%v: %s\nwant %v: %s", fault.KindOf(err), fault.Message(err), tc.kind, tc.want)
			}
			if strings.Contains(fault.Message(err), "\n") || strings.Contains(fault.Message(err), "secret") {
				t.Errorf("not one sentence, or a secret in it: %s", fault.Message(err))
			}
			if tc.kind == fault.Unavailable && fault.Hint(err) == "" {
				t.Error("no hint")
			}
		})
	}
}

func TestLoweredMaximumLowersDefault(t *testing.T) {
	src, _ := sources(t, map[string]string{"work/sandpiper.yaml": "sandbox: {max_timeout: 5s, max_memory_mb: 128}"})
	got, err := config.Load(src)
	if err != nil {
		t.Fatal(err)
	}
	if got.Limits.Timeout != 5*time.Second || got.Limits.MemoryMB != 128 {
		t.Errorf("%+v", got.Limits)
	}
}

func TestLoadRequiresDataDirectories(t *testing.T) {
	src := config.Sources{Dir: t.TempDir()}
	if got, err := config.Load(src); fault.KindOf(err) != fault.Invalid || fault.Hint(err) == "" {
		t.Errorf("%+v, %v", got, err)
	}
	src.Flags = map[string]string{"data_dir": "d", "cache_dir": "c"}
	got, err := config.Load(src)
	if err != nil || got.DataDir != filepath.Join(src.Dir, "d") {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestXDGDirectories(t *testing.T) {
	abs := t.TempDir()
	src, dir := sources(t, nil, "XDG_DATA_HOME="+abs, "XDG_CACHE_HOME=relative/is/ignored")
	got, err := config.Load(src)
	if err != nil {
		t.Fatal(err)
	}
	if got.DataDir != filepath.Join(abs, "sandpiper") || got.CacheDir != filepath.Join(dir, "home/.cache/sandpiper") {
		t.Errorf("data %s, cache %s", got.DataDir, got.CacheDir)
	}
}

func TestSeedVariables(t *testing.T) {
	seed := `
execution:
  workspace_dir: ./workspace
  sandbox_image: python
  allow_network_access: false
guardrails:
  enabled: true
  strict_mode: false
  max_execution_time: 120
  max_memory_mb: 400
mcp_servers: []
plugins: {a: 1, b: 2}
workflows: []
logging: {level: INFO}
`
	src, dir := sources(t, map[string]string{"work/config.yaml": seed, "work/workspace/a.txt": "",
		"work/.env": "WORKSPACE_DIR=./w\nWORKSPACE_DIR=workspace\nGUARDRAILS_ENABLED=true\nGUARDRAILS_STRICT_MODE=false\nLOG_LEVEL=INFO\nLOG_FILE=logs/x.log\nAZURE_OPENAI_API_KEY=k\n"},
		"LOG_LEVEL=trace")
	got, err := config.Load(src)
	if err != nil {
		t.Fatal(err)
	}
	if got.Limits.MaxTimeout != 2*time.Minute || got.Limits.MemoryMB != 400 || got.Limits.MaxMemoryMB != 400 {
		t.Errorf("limits %+v", got.Limits)
	}
	if got.Log != (config.Log{Level: slog.LevelInfo, File: filepath.Join(dir, "work/logs/x.log")}) {
		t.Errorf("log %+v", got.Log)
	}
	want := []string{
		"config.yaml line 3: execution.workspace_dir has no effect: code has a workspace of its own; sandpiper files put " +
			filepath.Join(dir, "work", "workspace") + " --as . copies what is there, once",
		"config.yaml line 12: plugins has no effect: connect an MCP server in servers, or add a hook to guardrails.hooks",
		"config.yaml line 13: workflows has no effect: save its files with `sandpiper workflow save FILE`, or put them in the directory " +
			"that workflows names in sandpiper.yaml",
		"config.yaml line 14: logging has no effect: write log: {level: …, file: …} instead",
		`LOG_LEVEL: log.level is "trace"; it must be debug, info, warn or error; it is ignored`,
	}
	if d := cmp.Diff(want, got.Warnings); d != "" {
		t.Error(d)
	}
}

func TestSeedFileWithOtherSandboxIsRejected(t *testing.T) {
	for name, text := range map[string]string{
		"docker": "execution: {sandbox_type: docker}",
	} {
		src, _ := sources(t, map[string]string{"work/config.yaml": text})
		if got, err := config.Load(src); fault.KindOf(err) != fault.Unavailable {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

func TestUnreadableFileIsAnError(t *testing.T) {
	src, _ := sources(t, map[string]string{"work/big.yaml": strings.Repeat("#", 2<<20), "work/dir/x": ""})
	for _, name := range []string{"missing.yaml", "big.yaml", "dir"} {
		src.File = name
		if got, err := config.Load(src); err == nil {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestHomeDirectoryInServers(t *testing.T) {
	src, dir := sources(t, map[string]string{"work/sandpiper.yaml": `
servers:
  home: {command: ./server, cwd: "~"}
  below: {command: ~/bin/server, args: [~/kept], cwd: ~/work}
  other: {command: ~root/server, cwd: ./~}
catalog: [~/tools.json]
`}, "HOME=/home/me")
	c, err := config.Load(src)
	if err != nil {
		t.Fatal(err)
	}
	want := []config.Server{
		{Name: "home", Command: "./server", Dir: "/home/me"},
		{Name: "below", Command: "/home/me/bin/server", Args: []string{"~/kept"}, Dir: "/home/me/work"},
		{Name: "other", Command: "~root/server", Dir: filepath.Join(dir, "work", "~")},
	}
	if d := cmp.Diff(want, c.Servers); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{"/home/me/tools.json"}, c.Catalogs); d != "" {
		t.Error(d)
	}
}

func TestServersInClientFormat(t *testing.T) {
	src, dir := sources(t, map[string]string{"work/sandpiper.yaml": `
servers:
  github: {command: npx, args: [-y, "@modelcontextprotocol/server-github"], env: {GITHUB_TOKEN: "${GITHUB_TOKEN}"}, category: dev}
  remote.one:
    type: streamable-http
    url: https://example.com/mcp
    headers: {Authorization: "Bearer ${TOKEN}"}
    timeout: 2m
    concurrency: 3
  local: {command: ./server, cwd: tools, idle: 30s}
  off: {command: x, disabled: true}
catalog: [./tools_registry, /full_catalog.json]
`, "work/.env": "TOKEN=beside\nGITHUB_TOKEN=beside\n"}, "GITHUB_TOKEN=outside")
	c, err := config.Load(src)
	if err != nil {
		t.Fatal(err)
	}
	want := []config.Server{
		{Name: "github", Command: "npx", Args: []string{"-y", "@modelcontextprotocol/server-github"},
			Env: map[string]string{"GITHUB_TOKEN": "${GITHUB_TOKEN}"}, Category: "dev", Dir: filepath.Join(dir, "work")},
		{Name: "remote.one", URL: "https://example.com/mcp", Transport: "http",
			Headers: map[string]string{"Authorization": "Bearer ${TOKEN}"}, Timeout: 2 * time.Minute, Concurrency: 3,
			Dir: filepath.Join(dir, "work")},
		{Name: "local", Command: "./server", Dir: filepath.Join(dir, "work", "tools"), Idle: 30 * time.Second},
	}
	if d := cmp.Diff(want, c.Servers); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{filepath.Join(dir, "work", "tools_registry"), "/full_catalog.json"}, c.Catalogs); d != "" {
		t.Error(d)
	}
	for name, want := range map[string]string{"GITHUB_TOKEN": "outside", "TOKEN": "beside", "NOBODY": ""} {
		if got, ok := c.Lookup(name); got != want || ok != (want != "") {
			t.Errorf("%s is %q, %t", name, got, ok)
		}
	}
	if text := fmt.Sprintf("%v %+v %#v", c.Servers, c.Servers, c.Servers); strings.Contains(text, "TOKEN") {
		t.Errorf("printing shows %s", text)
	}
}

func TestSeedServerList(t *testing.T) {
	src, _ := sources(t, map[string]string{"work/config.yaml": "guardrails: {enabled: false}\nmcp_servers:\n- name: calc\n  command: " +
		"python3\n  args: [calc.py]\n"})
	c, err := config.Load(src)
	if err != nil || len(c.Servers) != 1 || c.Servers[0].Name != "calc" || c.Servers[0].Command != "python3" {
		t.Errorf("%+v, %v", c, err)
	}
}

func TestSeedRegistryAndSkills(t *testing.T) {
	src, dir := sources(t, map[string]string{
		"agentic/mcp-servers/code-execution-mcp/tools_registry/full_catalog.json": "{}",
		"agentic/mcp-servers/code-execution-mcp/skills/a.py":                      "",
	})
	src.Environ = append(src.Environ, "AGENTIC_SYSTEM_PATH="+filepath.Join(dir, "agentic"))
	c, err := config.Load(src)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{filepath.Join(dir, "agentic/mcp-servers/code-execution-mcp/tools_registry")}, c.Catalogs); d != "" {
		t.Error(d)
	}
	if want := filepath.Join(dir, "agentic/mcp-servers/code-execution-mcp/skills"); c.SkillsDir != want || c.Warnings != nil {
		t.Errorf("skills in %q, want %q; %v", c.SkillsDir, want, c.Warnings)
	}
}

func TestSeedDirectories(t *testing.T) {
	src, dir := sources(t, map[string]string{
		"work/config.yaml": "execution: {servers_dir: ./servers, skills_dir: ./gone}\n", "work/servers/a/f.py": "", "skills/a.py": "",
	})
	src.Environ = append(src.Environ, "SKILLS_DIR="+filepath.Join(dir, "skills"))
	c, err := config.Load(src)
	if err != nil {
		t.Fatal(err)
	}
	if c.ServersDir != filepath.Join(dir, "work/servers") || c.SkillsDir != filepath.Join(dir, "skills") {
		t.Errorf("servers in %q, skills in %q", c.ServersDir, c.SkillsDir)
	}
	want := []string{"config.yaml line 1: execution.skills_dir has no effect: there is no directory " + filepath.Join(dir, "work/gone")}
	if d := cmp.Diff(want, c.Warnings); d != "" {
		t.Error(d)
	}
}

// TestTimesInDaysAndWeeks reads each kind of time in days and weeks.
func TestTimesInDaysAndWeeks(t *testing.T) {
	const day = 24 * time.Hour
	src, _ := sources(t, map[string]string{"work/sandpiper.yaml": `
approvals: {timeout: 1d}
audit: {max_age: 2w}
pii: {ttl: {default: 1d12h}}
servers: {a: {command: a, timeout: 1d}}
`})
	cfg, err := config.Load(src)
	if err != nil {
		t.Fatal(err)
	}
	got := []time.Duration{cfg.Approvals.Timeout, cfg.Audit.Age, cfg.PII.TTL[""], cfg.Servers[0].Timeout}
	if want := []time.Duration{day, 14 * day, 36 * time.Hour, day}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
