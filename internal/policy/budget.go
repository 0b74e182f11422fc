package policy

import (
	"fmt"
	"reflect"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// Per is the period of a budget.
type Per string

// The periods of budgets.
const (
	Execution Per = "execution" // of any length; calls without an execution are not counted
	Minute    Per = "minute"
	Hour      Per = "hour"
	Day       Per = "day"
)

// durations of the periods, except Execution.
var durations = map[Per]time.Duration{Minute: time.Minute, Hour: time.Hour, Day: 24 * time.Hour}

// Budget limits the number of calls per period, for each tenant separately.
type Budget struct {
	Name string `key:"name"` // "" means "budget" and its number
	Scope
	Calls int    `key:"calls"`
	Per   Per    `key:"per"`
	At    string `key:"@"` // file and line, for messages
}

const maxBudgetCalls = 10_000_000

// budget is a compiled Budget.
type budget struct {
	Budget
	label   string
	scope   scope
	counted *counted
}

func (b Budget) compile(number string) (*budget, error) {
	c := &budget{Budget: b, label: number, counted: &counted{b.Per}}
	err := checkName(b.Name)
	if b.Name != "" && err == nil {
		c.label = b.Name
		number += " (" + b.Name + ")"
	}
	switch {
	case err != nil:
	case b.Per != Execution && durations[b.Per] == 0:
		err = fault.New(fault.Invalid, "counts per %.40q; it must be execution, minute, hour or day", b.Per)
	case b.Calls < 1 || b.Calls > maxBudgetCalls:
		err = fault.New(fault.Invalid, "has %d calls; they must be a whole number from 1 to %d", b.Calls, maxBudgetCalls).
			WithHint("a rule with the decision block forbids calls")
	default:
		c.scope, err = b.Scope.compile()
	}
	if err != nil {
		return nil, fault.New(fault.Invalid, "%s%s of the policy %s", location(b.At), number, fault.Message(err)).
			WithHint("%s", fault.Hint(err))
	}
	return c, nil
}

// exceeded is the decision on a call if the budget has no call left until free.
func (b *budget) exceeded(free, now time.Time) Decision {
	reason := fmt.Sprintf("its %d calls in this execution are used up", b.Calls)
	if b.Per != Execution {
		wait := free.Sub(now).Round(time.Second)
		reason = fmt.Sprintf("its %d calls in a%s are used up; the next may be made in %s, at %s", b.Calls, article(b.Per),
			max(wait, time.Second), free.UTC().Format(time.RFC3339))
	}
	return Decision{Block, b.label, reason}
}

// article returns the rest of "a minute" or "an hour" after the "a".
func article(p Per) string {
	if p == Hour {
		return "n hour"
	}
	return " " + string(p)
}

// Take counts a call that is about to be made, or returns the decision of the budget
// that has no call left. It counts the call in all budgets or in none.
func (p *Policy) Take(c Call) Decision { return p.spend(&c, true) }

// checkBudgets returns what Take would, and counts nothing.
func (p *Policy) checkBudgets(c *Call) Decision { return p.spend(c, false) }

func (p *Policy) spend(c *Call, take bool) Decision {
	allowed := Decision{Verdict: Allow}
	if len(p.budgets) == 0 {
		return allowed
	}
	p.used.mu.Lock()
	defer p.used.mu.Unlock()
	now := time.Now()
	var included []*budget
	for _, b := range p.budgets {
		if !b.includes(c) {
			continue
		}
		if left, free := p.used.left(b, c, now); left == 0 {
			return b.exceeded(free, now)
		}
		included = append(included, b)
	}
	for _, b := range included {
		if take {
			p.used.take(b, c, now)
		}
	}
	return allowed
}

// KeepCounts makes p continue the counts of an earlier policy: those of budgets that count the same
// calls. Both policies count together from then on. It must be called before p is used.
func (p *Policy) KeepCounts(earlier *Policy) {
	p.used = earlier.used
	taken := map[*counted]bool{}
	for _, b := range p.budgets {
		for _, old := range earlier.budgets {
			if !taken[old.counted] && b.Per == old.Per && reflect.DeepEqual(b.Scope, old.Scope) {
				b.counted, taken[old.counted] = old.counted, true
				break
			}
		}
	}
}

// includes reports whether a budget counts a call.
func (b *budget) includes(c *Call) bool {
	return b.scope.match(c, c.Ref.String()) == matches && (b.Per != Execution || c.Execution != "")
}
