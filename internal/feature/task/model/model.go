// Package model writes programs for tasks with a language model: at an OpenAI-compatible,
// Azure OpenAI or Anthropic endpoint, or the client's own model by MCP sampling.
//
// Terms. An answer is the text of a model; the program in it is extracted, and an answer
// without a complete program is an error. A request is one exchange with an endpoint;
// temporary failures repeat it. The budget of a task limits the tokens, and the cost, of
// all its requests.
//
// The package sends what it is given: the caller passes only what a model may see, and
// redacts the task, the tools and the error of an attempt before. Errors name the host of
// the endpoint and the failure, never a key, a text or the response.
//
// The package neither checks nor runs a program. A Generator is safe for concurrent use.
package model

import (
	"cmp"
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/config/section"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/task/task"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/tokens"
)

// The supported providers.
const (
	OpenAI    = "openai" // and compatible endpoints
	Azure     = "azure"
	Anthropic = "anthropic"
	Sampling  = "sampling" // the client's own model
)

// Defaults of Config.
const (
	DefaultMaxTokens = 8192
	DefaultTimeout   = 2 * time.Minute
	DefaultBudget    = 100_000
)

// MinAnswer is the least number of tokens of an answer that is worth a request.
const MinAnswer = 256

// budgetTokens is the key of Config.Budget.
const budgetTokens = "tasks.budget_tokens"

// Config of a Generator.
type Config struct {
	Provider string `key:"model,restart" allow:"none openai azure anthropic sampling"` // required
	// model, or deployment on Azure; with Sampling a preference, "" means none
	Name string `key:"name,restart"`
	// of the endpoint; "" means the default of the provider; Azure has none
	URL        string        `key:"url,restart" form:"url"`
	Key        string        `key:"key,restart" form:"reference"`           // a reference such as ${NAME}; "" sends none
	APIVersion string        `key:"api_version,restart"`                    // of the older API of Azure; "" means the current API
	MaxTokens  int           `key:"max_tokens,restart" range:"256 1048576"` // of an answer; 0 means DefaultMaxTokens
	Timeout    time.Duration `key:"timeout,restart"`                        // of a request; 0 means DefaultTimeout
	// tokens of a task, sent and received; 0 means DefaultBudget
	Budget int64 `key:"budget_tokens,restart" range:"1000 1073741824"`
	// Limits of ask_llm in an execution: prompts, 0 means DefaultAskRequests and a negative number
	// that code cannot ask; and tokens, 0 means DefaultBudget.
	AskRequests Prompts          `key:"ask_requests,restart"`
	AskTokens   int64            `key:"ask_tokens,restart" range:"1000 1073741824"`
	BudgetCost  Amount           `key:"budget_cost,restart"` // of a task, in the currency of Prices; 0 means no limit
	Prices      map[string]Price `key:"prices,restart"`      // by model

	// Resolve replaces references such as ${NAME} before each request; nil leaves them
	// unchanged.
	Resolve func(ctx context.Context, text string) (string, error)
	// Sample asks the client's model; required for Sampling.
	Sample task.Sample
}

// Prompts is a number of prompts. The text 0 means none, which is -1.
type Prompts int

// SetText implements section.Setter.
func (p *Prompts) SetText(text string) error {
	n, err := section.Whole(text, 0, 1<<20)
	if *p = Prompts(n); err == nil && n == 0 {
		*p = -1
	}
	return err
}

// Amount is an amount of money.
type Amount float64

// SetText implements section.Setter.
func (a *Amount) SetText(text string) error {
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || !(v > 0) || math.IsInf(v, 0) {
		return section.Must(text, "a number above 0")
	}
	*a = Amount(v)
	return nil
}

// Price of a million tokens.
type Price struct {
	Input  float64 `key:"input"`
	Output float64 `key:"output"`
}

// Generator writes programs with a model. It implements task.Generator.
type Generator struct {
	cfg Config
	ask func(ctx context.Context, q question, progress func(string)) (answer, error)
}

// question is one request to a model.
type question struct {
	system, prompt string
	max            int // tokens of the answer
}

// answer is the response of a model, complete or up to a failure.
type answer struct {
	text      string
	model     string // "" means the one of the configuration
	finished  bool
	truncated bool // at the maximum number of tokens
	refused   bool
	input     int64 // tokens; 0 if they are not reported
	output    int64
}

// failure is an error after which a request may be repeated.
type failure struct {
	error
	after time.Duration // that the endpoint demands; negative if it demands none
}

func (f *failure) Unwrap() error { return f.error }

// New returns a Generator. It sends no request.
func New(cfg Config) (*Generator, error) {
	if cfg.MaxTokens == 0 {
		cfg.MaxTokens = DefaultMaxTokens
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = DefaultTimeout
	}
	if cfg.Budget == 0 {
		cfg.Budget = DefaultBudget
	}
	if err := cfg.Check(); err != nil {
		return nil, err
	}
	g := &Generator{cfg: cfg}
	if cfg.Provider != Sampling {
		g.ask = newEndpoint(cfg).ask
		return g, nil
	}
	if cfg.Sample == nil {
		return nil, fault.New(fault.Unavailable, "the client offers no model to write programs with").
			WithHint("use a client that supports MCP sampling, or set tasks.model to openai, azure, anthropic or none")
	}
	g.ask = func(ctx context.Context, q question, _ func(string)) (answer, error) {
		s, err := cfg.Sample(ctx, task.Prompt{System: q.system, Text: q.prompt, MaxTokens: q.max, Model: cfg.Name})
		return answer{text: s.Text, model: s.Model, finished: err == nil, truncated: s.Truncated}, err
	}
	g.cfg.Name = Sampling
	return g, nil
}

// Check rejects a configuration that cannot work.
func (cfg Config) Check() error {
	d, ok := dialects[cfg.Provider]
	_, priced := cfg.Prices[cfg.Name]
	switch {
	case !ok && cfg.Provider != Sampling:
		return fault.New(fault.Invalid, "tasks.model is %q; it must be openai, azure, anthropic or sampling", cfg.Provider)
	case cfg.BudgetCost > 0 && !priced:
		return fault.New(fault.Invalid, "tasks.budget_cost has no effect without a price of the model %q", cfg.Name).
			WithHint("add it to tasks.prices")
	case !ok:
		return nil
	case cfg.Name == "":
		return fault.New(fault.Invalid, "tasks.name is missing").WithHint("set tasks.name to the model, or to the deployment on Azure")
	case cfg.URL == "" && d.usual == "":
		return fault.New(fault.Invalid, "tasks.url is missing").WithHint("set tasks.url to the endpoint of the Azure resource")
	case cfg.URL == "" && cfg.Key == "":
		return fault.New(fault.Invalid, "tasks.key is missing; %s requires a key", d.usual).
			WithHint("set tasks.key to a reference such as ${OPENAI_API_KEY}, or tasks.url to another endpoint")
	}
	return nil
}

// Generate implements task.Generator.
func (g *Generator) Generate(ctx context.Context, r task.Request) (task.Answer, error) {
	a := task.Answer{Usage: task.Usage{Model: g.cfg.Name}}
	start := time.Now()
	text, err := prompt(r)
	if err != nil {
		return a, err
	}
	progress := r.Progress
	if progress == nil {
		progress = func(string) {}
	}
	got, err := g.repeat(ctx, question{system: systemPrompt, prompt: text}, r.Spent, &a.Usage, progress)
	a.Usage.Duration = time.Since(start)
	if err != nil {
		return a, err
	}
	code, search, why := extract(got.text)
	switch {
	case got.refused:
		why = "the model declined to answer"
	case got.truncated && code == "":
		why = "the answer was truncated at the maximum number of tokens; write a shorter program"
	}
	if why != "" {
		return a, noProgram(why)
	}
	a.Code, a.Search = code, search
	return a, nil
}

// noProgram returns the error for an answer without a program.
func noProgram(why string) error {
	return fault.Wrap(fault.Unavailable, task.ErrNoProgram, "the model returned no program: %s", why)
}

// Limits of repeated requests.
const (
	attempts     = 4
	firstPause   = 500 * time.Millisecond
	longestPause = 30 * time.Second
)

// repeat asks until there is an answer, a permanent error, or the last attempt failed. It
// adds the cost of all requests to used.
func (g *Generator) repeat(ctx context.Context, q question, spent task.Usage, used *task.Usage, progress func(string)) (answer, error) {
	pause := firstPause
	for left := attempts - 1; ; left-- {
		total := spent
		total.Add(*used)
		var err error
		if q.max, err = g.affordable(total, q); err != nil {
			return answer{}, err
		}
		a, err := g.once(ctx, q, progress)
		g.count(used, q, a)
		var again *failure
		if err == nil || left == 0 || !errors.As(err, &again) {
			return a, plain(err)
		}
		wait := min(again.after, longestPause)
		if wait < 0 {
			wait = min(pause+rand.N(pause/2), longestPause)
			pause *= 2
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return a, plain(err)
		}
	}
}

// plain returns the error of a failure.
func plain(err error) error {
	if f, ok := errors.AsType[*failure](err); ok {
		return f.error
	}
	return err
}

// once sends one request, bounded in time.
func (g *Generator) once(ctx context.Context, q question, progress func(string)) (answer, error) {
	limited, cancel := context.WithTimeout(ctx, g.cfg.Timeout)
	defer cancel()
	a, err := g.ask(limited, q, progress)
	switch {
	case err == nil:
		return a, nil
	case ctx.Err() != nil:
		return a, context.Cause(ctx)
	case limited.Err() != nil:
		return a, fault.New(fault.Unavailable, "%s did not answer within %v", g.host(ctx), g.cfg.Timeout).
			WithHint("check the endpoint, or increase tasks.timeout")
	}
	return a, err
}

// count adds the cost of a request. An answer whose tokens are not reported is counted here.
func (g *Generator) count(used *task.Usage, q question, a answer) {
	used.Requests++
	used.Model = cmp.Or(a.model, used.Model)
	if a.input == 0 && (a.finished || a.text != "") {
		a.input, used.Estimated = q.tokens(), true
	}
	if a.output == 0 && a.text != "" {
		a.output, used.Estimated = int64(tokens.Count(a.text)), true
	}
	p := g.cfg.Prices[g.cfg.Name]
	used.InputTokens += a.input
	used.OutputTokens += a.output
	used.Cost += (float64(a.input)*p.Input + float64(a.output)*p.Output) / 1e6
}

func (q question) tokens() int64 { return int64(tokens.Count(q.system) + tokens.Count(q.prompt)) }

// affordable returns the maximum number of tokens of the next answer, or an error if the
// budget does not suffice for a useful one.
func (g *Generator) affordable(spent task.Usage, q question) (int, error) {
	input := q.tokens()
	left := float64(g.cfg.Budget - spent.InputTokens - spent.OutputTokens - input)
	if left < MinAnswer {
		return 0, fault.New(fault.Exhausted, "the budget of %d tokens does not suffice: %d are spent, and the next request needs %d",
			g.cfg.Budget, spent.InputTokens+spent.OutputTokens, input+MinAnswer).
			WithHint("divide the task, or increase tasks.budget_tokens").WithQuota(budgetTokens)
	}
	if p, most := g.cfg.Prices[g.cfg.Name], float64(g.cfg.BudgetCost); most > 0 {
		money := most - spent.Cost - float64(input)*p.Input/1e6
		if money < 0 || money*1e6 < MinAnswer*p.Output {
			return 0, fault.New(fault.Exhausted, "the budget of %g does not suffice: %.4g are spent, and the next request needs %.4g", most,
				spent.Cost, (float64(input)*p.Input+MinAnswer*p.Output)/1e6).
				WithHint("divide the task, or increase tasks.budget_cost").WithQuota("tasks.budget_cost")
		}
		if p.Output > 0 {
			left = min(left, money*1e6/p.Output)
		}
	}
	return int(math.Min(left, float64(g.cfg.MaxTokens))), nil
}

// host names the model for messages. The URL may be a reference, or contain secrets.
func (g *Generator) host(ctx context.Context) string {
	if g.cfg.Provider == Sampling {
		return "the client's model"
	}
	base, _ := resolved(ctx, g.cfg, strings.TrimSpace(g.cfg.URL))
	return hostOf(base)
}
