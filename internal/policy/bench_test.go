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

// mixes of a thousand rules, none of which matches the calls of the benchmark, so
// that all are looked at.
var mixes = map[string]func(i int) policy.Rule{
	"literals": func(i int) policy.Rule {
		return policy.Rule{Scope: policy.Scope{Tools: []string{fmt.Sprintf("server%d.tool%d", i%50, i)}}}
	},
	"globs": func(i int) policy.Rule {
		return policy.Rule{Scope: policy.Scope{Tools: []string{fmt.Sprintf("*.delete_%d*", i), fmt.Sprintf("server%d.*_all", i)}}}
	},
	"globs and conditions": func(i int) policy.Rule {
		return policy.Rule{Scope: policy.Scope{Tools: []string{fmt.Sprintf("server%d.*", i%100)}}, When: fmt.Sprintf("args.amount > %d", 1000+i)}
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
	"conditions that go on in CEL": func(i int) policy.Rule {
		return policy.Rule{When: fmt.Sprintf("args.amount * 2.0 < -%d.0 || args.to == 'nobody%d'", i, i)}
	},
	"conditions that loop": func(i int) policy.Rule {
		return policy.Rule{When: fmt.Sprintf("args.labels.exists(l, l == 'label%d')", i)}
	},
}

// half of the rules are of tools by name, half by a condition.
func init() {
	names := []string{"literals", "globs", "globs and conditions", "conditions of hints and tenants", "conditions of tools", "conditions of one argument"}
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

// BenchmarkDecide says what a decision costs with a thousand rules, in processor
// time: of a tool that was called before, and of one that is called the first time.
func BenchmarkDecide(b *testing.B) {
	call := call("server7", "pay", payment)
	call.Hints = tool.Hints{Destructive: mark(true), ReadOnly: mark(false)}
	for name, rule := range mixes {
		p := thousand(b, rule)
		decide := func(b *testing.B, c policy.Call) {
			if d, err := p.Decide(b.Context(), c); err != nil || d.Rule != "default" {
				b.Fatal(d, err)
			}
		}
		b.Run(name, func(b *testing.B) {
			before := processor()
			for b.Loop() {
				decide(b, call)
			}
			b.ReportMetric(float64((processor()-before).Nanoseconds())/float64(b.N), "CPU-ns/op")
		})
		tools := 0
		b.Run(name+"/first", func(b *testing.B) {
			before := processor()
			for b.Loop() {
				tools++
				c := call
				c.Tool = fmt.Sprint("pay", tools)
				decide(b, c)
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
