//go:build unix

package policy_test

import (
	"fmt"
	"maps"
	"syscall"
	"testing"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/policy"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
)

// mixes are sets of a thousand rules. None matches the calls of the benchmark, so that
// all are evaluated.
var mixes = map[string]func(i int) policy.Rule{
	"literals": func(i int) policy.Rule {
		return policy.Rule{Scope: policy.Scope{Tools: []string{fmt.Sprintf("server%d.tool%d", i%50, i)}}}
	},
	"globs": func(i int) policy.Rule {
		return policy.Rule{Scope: policy.Scope{Tools: []string{fmt.Sprintf("*.delete_%d*", i), fmt.Sprintf("server%d.*_all", i)}}}
	},
	"globs and conditions": func(i int) policy.Rule {
		return policy.Rule{Scope: policy.Scope{Tools: []string{fmt.Sprintf("server%d.*", i%100)}},
			When: fmt.Sprintf("args.amount > %d", 1000+i)}
	},
	"conditions of hints and tenants": func(i int) policy.Rule {
		return policy.Rule{When: fmt.Sprintf("tool.destructive && tenant == 'tenant%d'", i)}
	},
	"conditions of tools": func(i int) policy.Rule {
		return policy.Rule{When: fmt.Sprintf("tool.server == 'server%d' && tool.name.startsWith('x') && args.amount > 5", i)}
	},
	"conditions of one argument": func(i int) policy.Rule {
		return policy.Rule{When: fmt.Sprintf("args.amount > %d", 1000+i)}
	},
	"conditions of a thousand arguments": func(i int) policy.Rule {
		return policy.Rule{When: fmt.Sprintf("has(args.field%d) && args.field%d == 'x'", i, i)}
	},
	"computed conditions": func(i int) policy.Rule {
		return policy.Rule{When: fmt.Sprintf("args.amount * 2.0 < -%d.0 || args.to == 'user%d'", i, i)}
	},
	"conditions that loop": func(i int) policy.Rule {
		return policy.Rule{When: fmt.Sprintf("args.labels.exists(l, l == 'label%d')", i)}
	},
}

// Half of the mixed rules name tools or servers, half have only a condition.
func init() {
	names := []string{"literals", "globs", "globs and conditions", "conditions of hints and tenants", "conditions of tools",
		"conditions of one argument"}
	of := maps.Clone(mixes)
	mixes["mixed"] = func(i int) policy.Rule { return of[names[i%len(names)]](i) }
}

const payment = `{"amount": 20.5, "to": "ann@example.com", "labels": ["a", "b", "c"], "note": {"text": "thanks", "lines": [1, 2, 3]}}`

func thousand(b *testing.B, rule func(int) policy.Rule) *policy.Policy {
	cfg := policy.Config{}
	for i := range 1000 {
		r := rule(i)
		r.Decision = policy.Ask
		cfg.Rules = append(cfg.Rules, r)
	}
	return open(b, cfg)
}

// BenchmarkDecide measures the processor time of a decision with a thousand rules.
func BenchmarkDecide(b *testing.B) {
	call := call("server7", "pay", payment)
	call.Hints = tool.Hints{Destructive: mark(true), ReadOnly: mark(false)}
	for name, rule := range mixes {
		p := thousand(b, rule)
		b.Run(name, func(b *testing.B) {
			before := processor()
			for b.Loop() {
				if d, err := p.Decide(b.Context(), call); err != nil || d.Rule != "default" {
					b.Fatal(d, err)
				}
			}
			b.ReportMetric(float64((processor()-before).Nanoseconds())/float64(b.N), "CPU-ns/op")
		})
	}
}

func processor() time.Duration {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		return 0
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}
