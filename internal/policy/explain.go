package policy

import (
	"context"
	"time"
)

// Explanation is a decision with the rules and budgets that were considered.
type Explanation struct {
	Decision
	Requires *Requirement  `json:"requires,omitempty"` // the sandbox of code that makes the call
	Rules    []RuleResult  `json:"looked_at"`
	Budgets  []BudgetState `json:"budgets"`
}

// RuleResult is the result of one rule for a call.
type RuleResult struct {
	Rule     string  `json:"rule"`
	At       string  `json:"at,omitempty"`
	Decision Verdict `json:"decision,omitempty"`
	Sandbox  string  `json:"sandbox,omitempty"` // that the rule requires
	Fits     string  `json:"fits"`              // yes, no, or unsure
	Why      string  `json:"why,omitempty"`
}

// BudgetState is the state of one budget for a call, as counted by this process.
type BudgetState struct {
	Budget string     `json:"budget"`
	At     string     `json:"at,omitempty"`
	Calls  int        `json:"calls"`
	Per    Per        `json:"per"`
	Left   int        `json:"left"`
	FreeAt *time.Time `json:"free_at,omitempty"` // when the next call is possible, if none is left
}

// Explain decides like Decide and reports how. The explanation may contain values of
// the arguments.
func (p *Policy) Explain(ctx context.Context, c Call) (Explanation, error) {
	e := newEvaluation(&c)
	defer e.close()
	x := Explanation{Rules: []RuleResult{}, Budgets: []BudgetState{}}
	x.Decision = p.judge(&c, func(yield func(*rule, fit) bool) {
		decided := false
		for _, r := range p.rules {
			if decided && r.Sandbox == "" { // of those after the one that decides, only these matter
				continue
			}
			how, err := r.fits(ctx, e)
			x.Rules = append(x.Rules, RuleResult{r.label, r.At, r.Rule.Decision, r.Sandbox, fitNames[how], why(how, err)})
			decided = decided || r.decides() && !yield(r, how)
		}
	})
	if e.argsErr != nil {
		return Explanation{}, e.argsErr
	}
	required, err := p.Requires(ctx, c)
	if err != nil {
		return Explanation{}, err
	}
	if required.Sandbox != (Sandbox{}) {
		x.Requires = &required
	}
	if x.Verdict != Block {
		x.Decision = x.Decision.Stricter(p.checkBudgets(&c))
	}
	x.Budgets = append(x.Budgets, p.budgetStates(&c)...)
	if p.project == nil {
		return x, nil
	}
	project, err := p.project.Explain(ctx, c)
	if err != nil {
		return Explanation{}, err
	}
	x.Decision = x.Decision.Stricter(project.Decision)
	x.Rules = append(x.Rules, project.Rules...)
	return x, nil
}

var fitNames = map[fit]string{matches: "yes", undecided: "unsure", otherTool: "no", otherServer: "no", otherTenant: "no",
	conditionFalse: "no"}

// why is the reason for a fit, "" if the rule matches.
func why(how fit, err error) string {
	switch how {
	case otherTool:
		return "it applies to other tools"
	case otherServer:
		return "it applies to other servers"
	case otherTenant:
		return "it applies to other tenants"
	case conditionFalse:
		return "its condition is false"
	case undecided:
		if err != nil {
			return "its condition has no answer: " + err.Error()
		}
		return "its condition has no answer"
	}
	return ""
}

// budgetStates returns the states of the budgets that include a call.
func (p *Policy) budgetStates(c *Call) (all []BudgetState) {
	p.used.mu.Lock()
	defer p.used.mu.Unlock()
	now := time.Now()
	for _, b := range p.budgets {
		if !b.includes(c) {
			continue
		}
		n, free := p.used.left(b, c, now)
		s := BudgetState{Budget: b.label, At: b.At, Calls: b.Calls, Per: b.Per, Left: n}
		if n == 0 && b.Per != Execution {
			s.FreeAt = &free
		}
		all = append(all, s)
	}
	return all
}
