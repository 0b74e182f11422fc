package policy

import (
	"fmt"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// Per is the time over which a budget counts.
type Per string

// The times of budgets.
const (
	Execution Per = "execution" // one, however long; calls of none are not counted
	Minute    Per = "minute"
	Hour      Per = "hour"
	Day       Per = "day"
)

// lengths of the times that have one.
var lengths = map[Per]time.Duration{Minute: time.Minute, Hour: time.Hour, Day: 24 * time.Hour}

// Budget bounds how many calls go on, for each tenant on its own.
type Budget struct {
	Name string // "" means its number
	Scope
	Calls int
	Per   Per
	At    string // where it stands, for messages
}

// mostCalls is the largest budget.
const mostCalls = 10_000_000

type budget struct {
	Budget
	label string
	scope scope
}

func (b Budget) compile(number string) (*budget, error) {
	c := &budget{Budget: b, label: number}
	err := checkName(b.Name)
	if b.Name != "" && err == nil {
		c.label = b.Name
		number += " (" + b.Name + ")"
	}
	switch {
	case err != nil:
	case b.Per != Execution && lengths[b.Per] == 0:
		err = fault.New(fault.Invalid, "counts per %.40q; it must be execution, minute, hour or day", b.Per)
	case b.Calls < 1 || b.Calls > mostCalls:
		err = fault.New(fault.Invalid, "has %d calls; they must be a whole number from 1 to %d", b.Calls, mostCalls).
			WithHint("a rule with the decision block forbids calls")
	default:
		c.scope, err = b.Scope.compile()
	}
	if err != nil {
		return nil, fault.New(fault.Invalid, "%s%s of the policy %s", place(b.At), number, fault.Message(err)).WithHint("%s", fault.Hint(err))
	}
	return c, nil
}

// over is the decision on a call for which a budget has no room.
func (b *budget) over(free, now time.Time) Decision {
	why := fmt.Sprintf("its %d calls in this execution are used up", b.Calls)
	if b.Per != Execution {
		wait := free.Sub(now).Round(time.Second)
		why = fmt.Sprintf("its %d calls in a%s are used up; the next may be made in %s, at %s", b.Calls, article(b.Per), max(wait, time.Second), free.UTC().Format(time.RFC3339))
	}
	return Decision{Block, b.label, why}
}

func article(p Per) string {
	if p == Hour {
		return "n hour"
	}
	return " " + string(p)
}

// Take counts a call that is about to be made, or says which budget has no room for
// it. It counts in all budgets or in none.
func (p *Policy) Take(c Call) Decision { return p.spend(&c, true) }

// room says whether Take would let a call go on.
func (p *Policy) room(c *Call) Decision { return p.spend(c, false) }

func (p *Policy) spend(c *Call, take bool) Decision {
	pass := Decision{Verdict: Allow}
	if len(p.budgets) == 0 {
		return pass
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	var of []*budget
	for _, b := range p.budgets {
		if !b.counts(c) {
			continue
		}
		if left, free := p.used.left(b, c, now); left == 0 {
			return b.over(free, now)
		}
		of = append(of, b)
	}
	for _, b := range of {
		if take {
			p.used.take(b, c, now)
		}
	}
	return pass
}

// counts tells whether a budget is of a call.
func (b *budget) counts(c *Call) bool {
	return b.scope.includes(c) == matches && (b.Per != Execution || c.Execution != "")
}
