package config_test

import (
	"strings"
	"testing"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/config"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
)

func id(t *testing.T, uid string) tenant.ID {
	t.Helper()
	id, err := tenant.Parse(uid)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

const tiers = `
sandbox: {timeout: 20s, memory_mb: 400}
tiers:
  free: {tenants: ["*@trial.example", eve], servers: [git], tools: ["git.list_*"], profile: lean, sandbox: {max_timeout: 5s}, workspace: {max_mb: 10}}
  pro: {sandbox: {memory_mb: 800}, pii: {mode: strict}}
  default: {sessions: {per_tenant: 2}}
tenants:
  ada@trial.example: {workspace: {max_mb: 99}, servers: ["*"]}
  bob: {tier: pro, sandbox: {timeout: 40s}}
  carol: {pii: {mode: "off"}}
`

func TestTierOfTenant(t *testing.T) {
	src, _ := sources(t, map[string]string{"work/sandpiper.yaml": tiers})
	all := load(t, src).Tenants
	for _, c := range []struct{ uid, assigned, want string }{
		{"x@trial.example", "", "free"}, {"eve", "", "free"}, {"Eve", "", "default"}, {"other", "", "default"},
		{"other", "pro", "pro"}, {"x@trial.example", "pro", "pro"}, {"other", "gone", "default"},
		{"bob", "", "pro"}, {"bob", "free", "pro"}, {"carol", "free", "free"},
	} {
		if got := all.Tier(id(t, c.uid), c.assigned); got != c.want {
			t.Errorf("%s, assigned %q: %q, want %q", c.uid, c.assigned, got, c.want)
		}
	}
}

func TestSettingsOfTenants(t *testing.T) {
	src, _ := sources(t, map[string]string{"work/sandpiper.yaml": tiers})
	c := load(t, src)
	free, bob, other := c.For(id(t, "eve"), ""), c.For(id(t, "bob"), ""), c.For(id(t, "other"), "")
	if free.Limits.MaxTimeout != 5*time.Second || free.Limits.Timeout != 5*time.Second || free.Limits.MemoryMB != 400 ||
		free.Profile != "lean" || free.Workspace.Quota.Bytes != 10<<20 {
		t.Errorf("%+v %s %+v", free.Limits, free.Profile, free.Workspace)
	}
	if bob.Limits.Timeout != 40*time.Second || bob.Limits.MemoryMB != 800 || bob.PII.Mode != "strict" || bob.Allow != nil {
		t.Errorf("%+v %s", bob.Limits, bob.PII.Mode)
	}
	if other.Sessions.PerTenant != 2 || other.Limits != c.Limits || other.PII.Mode != "egress" {
		t.Errorf("%+v %+v", other.Sessions, other.Limits)
	}
	list, drop := tool.Ref{Server: "git", Tool: "list_all"}, tool.Ref{Server: "git", Tool: "drop"}
	if !free.Allow.Tool(list) || free.Allow.Tool(drop) || free.Allow.Server("mail") {
		t.Error("the tier's patterns are not applied")
	}
	ada := c.For(id(t, "ada@trial.example"), "")
	if !ada.Allow.Tool(list) || ada.Allow.Tool(drop) || ada.Workspace.Quota.Bytes != 99<<20 || ada.Limits.MaxTimeout != 5*time.Second {
		t.Errorf("the tenant's own block does not replace keys of its tier only: %+v", ada.Workspace)
	}
	if c.For(id(t, "ada@trial.example"), "") != ada || c.For(id(t, "ada@trial.example"), "pro") == ada {
		t.Error("configurations are not shared by tenant and tier")
	}
	if carol := c.For(id(t, "carol"), "pro"); carol.PII.Mode != "off" || carol.Limits.MemoryMB != 800 {
		t.Errorf("%+v", carol.PII.Mode)
	}
}

func TestWrongTiersAreRejected(t *testing.T) {
	for text, want := range map[string]string{
		"tiers: [a]":                                                 "tiers must contain settings by name",
		"tiers: {free: 5}":                                           "tiers.free (sandpiper.yaml line 1) must contain keys",
		"tiers: {Free: {profile: lean}}":                             `"Free" is not a valid name for a tier`,
		"tiers: {free: {profle: lean}}":                              `has no key "profle"; did you mean "profile"?`,
		"tiers: {free: {data_dir: /x}}":                              "data_dir applies to all tenants",
		"tiers: {free: {http: {token: x}}}":                          "http.token applies to all tenants",
		"tiers: {free: {profile: big}}":                              "profile is \"big\"",
		"tiers: {free: {tools: [\"a?\"]}}":                           "not a valid pattern",
		"tiers: {free: {tenants: 5}}":                                "",
		"tiers: {free: {sandbox: {memory_mb: 1}}}":                   "at least 64",
		"tiers: {free: {sandbox: {timeout: 50s, max_timeout: 20s}}}": "sandbox.timeout is \"50s\"",
		"tiers: {free: {tier: pro}}":                                 "has the key tier",
		"tiers: {free: {credentials: {git: {TOKEN: '${X}'}}}}":       "which only a tenant may have",
		"tenants: {bob: {credentials: {git: {TOKEN: secret-1234}}}}": "TOKEN must be a reference",
		"tenants: {bob: {credentials: {git: [a]}}}":                  "must be variables with references",
		"tenants: {../x: {profile: lean}}":                           "which is not allowed",
		"tenants: {bob: {tier: gold}}":                               `there is no tier "gold"`,
		"tenants: {bob: {tenants: [x]}}":                             "has the key tenants, which only a tier may have",
		"tiers: {a: {sandbox: {max_timeout: 5s}}}\ntenants: {bob: {tier: a, sandbox: {timeout: 9s}}}": "sandbox.timeout is \"9s\"",
	} {
		src, _ := sources(t, map[string]string{"work/sandpiper.yaml": text + "\n"})
		_, err := config.Load(src)
		if want == "" {
			if err != nil {
				t.Errorf("%s: %v", text, err)
			}
			continue
		}
		if fault.KindOf(err) != fault.Invalid || !strings.Contains(fault.Message(err), want) {
			t.Errorf("%s\n\t%v\n\twant %s", text, err, want)
		}
	}
}

func TestProjectCannotLoosenTiers(t *testing.T) {
	src := project(t, map[string]string{
		"home/.config/sandpiper/sandpiper.yaml": "tiers: {default: {sandbox: {max_timeout: 100s}, pii: {mode: egress}}}\n",
		"work/sandpiper.yaml": "tiers: {default: {sandbox: {max_timeout: 200s}}}\ntenants: {local: {pii: {mode: " +
			"\"off\"}}}\nsandbox: {max_timeout: 50s}\npii: {mode: strict}\n",
	})
	trust(t, src)
	c := load(t, src)
	local := c.For(tenant.Local, "")
	if local.Limits.MaxTimeout != 50*time.Second || local.PII.Mode != "strict" {
		t.Errorf("%+v %s", local.Limits, local.PII.Mode)
	}
	if !strings.Contains(strings.Join(c.Warnings, "\n"), "tiers has no effect in a project") ||
		!strings.Contains(strings.Join(c.Warnings, "\n"), "tenants has no effect in a project") {
		t.Error(c.Warnings)
	}
}
