package policy

import (
	"context"
	"time"
)

// Explanation is a decision and how it came about.
type Explanation struct {
	Decision
	Looked  []Look `json:"looked_at"`
	Budgets []Left `json:"budgets"`
}

// Look is what came of looking at one rule.
type Look struct {
	Rule     string  `json:"rule"`
	At       string  `json:"at,omitempty"`
	Decision Verdict `json:"decision"`
	Fits     string  `json:"fits"` // yes, no, or unsure
	Why      string  `json:"why,omitempty"`
}

// Left is what a budget of the call has left, as far as this process counts.
type Left struct {
	Budget string     `json:"budget"`
	At     string     `json:"at,omitempty"`
	Calls  int        `json:"calls"`
	Per    Per        `json:"per"`
	Left   int        `json:"left"`
	Free   *time.Time `json:"free_at,omitempty"` // when there is room again, if there is none
}

// Explain decides like Decide, and says why. What it says may hold what is in the
// arguments: it is for whoever brought them.
func (p *Policy) Explain(ctx context.Context, c Call) (Explanation, error) {
	f := &facts{call: &c, places: p.places.all}
	e := Explanation{Looked: []Look{}, Budgets: []Left{}}
	e.Decision = p.judge(f, func(yield func(*rule, fit) bool) {
		for _, r := range p.rules {
			how, why := r.explain(ctx, f)
			e.Looked = append(e.Looked, Look{r.label, r.At, r.Rule.Decision, words[how], why})
			if !yield(r, how) {
				return
			}
		}
	})
	if f.wrong != nil {
		return Explanation{}, f.wrong
	}
	if e.Verdict != Block {
		e.Decision = e.Decision.stricter(p.room(&c))
	}
	e.Budgets = append(e.Budgets, p.left(&c)...)
	if p.project == nil {
		return e, nil
	}
	project, err := p.project.Explain(ctx, c)
	if err != nil {
		return Explanation{}, err
	}
	e.Decision = e.Decision.stricter(project.Decision)
	e.Looked = append(e.Looked, project.Looked...)
	return e, nil
}

var words = map[fit]string{matches: "yes", unsure: "unsure", otherTool: "no", otherServer: "no", otherTenant: "no", conditionOff: "no"}

func (r *rule) explain(ctx context.Context, f *facts) (fit, string) {
	how := r.scope.includes(f.call)
	if how == matches && !r.when.possible(f) {
		how = conditionOff
	}
	if how == matches {
		how = r.when.holds(ctx, f)
	}
	why := map[fit]string{
		otherTool: "it is about other tools", otherServer: "it is about other servers", otherTenant: "it is about other tenants", conditionOff: "its condition is false",
	}[how]
	if how == unsure {
		why = "its condition has no answer"
		if _, _, err := r.when.program.Eval(f); err != nil {
			why += ": " + err.Error()
		}
	}
	return how, why
}

// left is what the budgets of a call have left.
func (p *Policy) left(c *Call) (all []Left) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	for _, b := range p.budgets {
		if !b.counts(c) {
			continue
		}
		n, free := p.used.left(b, c, now)
		l := Left{Budget: b.label, At: b.At, Calls: b.Calls, Per: b.Per, Left: n}
		if n == 0 && b.Per != Execution {
			l.Free = &free
		}
		all = append(all, l)
	}
	return all
}
