package model_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/task/model"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/task/model/modeltest"
	"github.com/sandpiper-mcp/sandpiper/internal/feature/task/task"
	"github.com/sandpiper-mcp/sandpiper/internal/longtest"
)

const program = "```python\nfrom servers.calculator import add\n\nresult = add(a=5, b=3)\n```\n"

var sum = task.Request{Task: "Calculate 5 + 3", Tools: []task.Described{{
	Name: "calculator.add", Import: "from servers.calculator import add",
	Signature: "add(a: float, b: float) -> float", Description: "Add two numbers.",
}}}

// providers are the configurations that reach an endpoint.
func providers(e *modeltest.Endpoint) map[string]model.Config {
	return map[string]model.Config{
		"openai":    {Provider: model.OpenAI, URL: e.URL + "/v1", Name: "m", Key: "${KEY}"},
		"azure":     {Provider: model.Azure, URL: e.URL, Name: "m", Key: "${KEY}"},
		"old azure": {Provider: model.Azure, URL: e.URL, Name: "m", Key: "${KEY}", APIVersion: modeltest.OldAzure},
		"anthropic": {Provider: model.Anthropic, URL: e.URL, Name: "m", Key: "${KEY}"},
	}
}

func generator(t *testing.T, cfg model.Config) *model.Generator {
	t.Helper()
	cfg.Resolve = func(_ context.Context, text string) (string, error) {
		return strings.ReplaceAll(text, "${KEY}", modeltest.Key), nil
	}
	g, err := model.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// each runs a test with every provider and an endpoint that answers as the function says.
func each(t *testing.T, answer func(n int, q modeltest.Question) modeltest.Reply,
	f func(t *testing.T, e *modeltest.Endpoint, cfg model.Config)) {
	for _, name := range []string{"openai", "azure", "old azure", "anthropic"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // pauses between requests
			e := modeltest.Serve(t, answer)
			f(t, e, providers(e)[name])
		})
	}
}

func replies(all ...modeltest.Reply) func(int, modeltest.Question) modeltest.Reply {
	return func(n int, _ modeltest.Question) modeltest.Reply { return all[min(n, len(all)-1)] }
}

func TestGenerateStreamsAProgramAndRepairsIt(t *testing.T) {
	wrong := "```python\nresult = add(5)\n```"
	answer := func(_ int, q modeltest.Question) modeltest.Reply {
		if strings.Contains(q.Prompt, "add(5)") && strings.Contains(q.Prompt, "missing argument: b") {
			return modeltest.Reply{Text: "The argument b was missing.\n" + program}
		}
		return modeltest.Reply{Text: wrong}
	}
	each(t, answer, func(t *testing.T, e *modeltest.Endpoint, cfg model.Config) {
		g := generator(t, cfg)
		var streamed strings.Builder
		parts := 0
		r := sum
		r.Progress = func(part string) { streamed.WriteString(part); parts++ }
		first, err := g.Generate(t.Context(), r)
		if err != nil || first.Code != "result = add(5)\n" {
			t.Fatalf("%+v, %v", first, err)
		}
		if streamed.String() != wrong || parts < 2 {
			t.Errorf("%d parts: %q", parts, streamed.String())
		}
		want := task.Usage{Model: "m", InputTokens: modeltest.InputTokens, OutputTokens: modeltest.OutputTokens, Requests: 1}
		used := first.Usage
		used.Duration = 0
		if cfg.APIVersion != "" { // the old API reports no tokens; ours are estimated
			if q := e.Asked(); !q[0].Old {
				t.Errorf("%+v", q)
			}
		} else if d := cmp.Diff(want, used); d != "" {
			t.Error(d)
		}
		r.Failed, r.Spent = &task.Attempt{Code: first.Code, Error: "missing argument: b"}, first.Usage
		second, err := g.Generate(t.Context(), r)
		if err != nil || second.Code != "from servers.calculator import add\n\nresult = add(a=5, b=3)\n" || second.Usage.Duration <= 0 {
			t.Errorf("%+v, %v", second, err)
		}
		for _, q := range e.Asked() {
			if q.Model != "m" || q.MaxTokens != model.DefaultMaxTokens || !strings.Contains(q.Prompt, "Calculate 5 + 3") ||
				!strings.Contains(q.Prompt, "# add(a: float, b: float) -> float\n# Add two numbers.\n") {
				t.Errorf("%+v", q)
			}
		}
	})
}

func TestGenerateWithSampling(t *testing.T) {
	var systems, prompts []string
	g, err := model.New(model.Config{Provider: model.Sampling, Budget: 3000,
		Sample: func(_ context.Context, p task.Prompt) (task.Sampled, error) {
			systems, prompts = append(systems, p.System), append(prompts, p.Text)
			if strings.Contains(p.Text, "missing argument: b") {
				return task.Sampled{Text: program}, nil
			}
			return task.Sampled{Text: "```python\nresult = add(5)\n```"}, nil
		}})
	if err != nil {
		t.Fatal(err)
	}
	r := sum
	first, err := g.Generate(t.Context(), r)
	if err != nil || first.Code == "" || first.Usage.Model != "sampling" || first.Usage.InputTokens < 200 || first.Usage.OutputTokens < 5 {
		t.Fatalf("%+v, %v", first, err)
	}
	r.Failed = &task.Attempt{Code: first.Code, Error: "missing argument: b"}
	if second, err := g.Generate(t.Context(), r); err != nil || !strings.Contains(second.Code, "b=3") {
		t.Errorf("%+v, %v", second, err)
	}
	if len(prompts) != 2 || systems[0] != systems[1] {
		t.Errorf("%q", prompts)
	}
	r.Spent = task.Usage{InputTokens: 2900}
	if _, err := g.Generate(t.Context(), r); fault.KindOf(err) != fault.Exhausted || len(prompts) != 2 {
		t.Errorf("%d prompts: %v", len(prompts), err)
	}
}

func TestSamplingReportsItsErrors(t *testing.T) {
	denied := fault.New(fault.Denied, "the person declined")
	for want, sample := range map[string]task.Sample{
		"the person declined": func(context.Context, task.Prompt) (task.Sampled, error) { return task.Sampled{}, denied },
		"the client's model did not answer within 10ms": func(ctx context.Context, _ task.Prompt) (task.Sampled, error) {
			<-ctx.Done()
			return task.Sampled{}, ctx.Err()
		},
		"the model returned no program: the answer is emp": func(context.Context, task.Prompt) (task.Sampled,
			error) {
			return task.Sampled{}, nil
		},
	} {
		g, err := model.New(model.Config{Provider: model.Sampling, Sample: sample, Timeout: 10 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		if a, err := g.Generate(t.Context(), sum); !strings.HasPrefix(fault.Message(err), want) || a.Usage.Requests != 1 {
			t.Errorf("%+v: %v", a, err)
		}
	}
	if _, err := model.New(model.Config{Provider: model.Sampling}); fault.KindOf(err) != fault.Unavailable {
		t.Error(err)
	}
}

func TestGenerateRequestsASearch(t *testing.T) {
	each(t, replies(modeltest.Reply{Text: "No tool sends mail.\nSEARCH: send mail\n"}),
		func(t *testing.T, _ *modeltest.Endpoint, cfg model.Config) {
			a, err := generator(t, cfg).Generate(t.Context(), sum)
			if a.Code != "" || a.Search != "send mail" || err != nil {
				t.Errorf("%+v, %v", a, err)
			}
		})
}

// Another attempt may have a program; the cost of this one is reported.
func TestGenerateReportsAnswersWithoutAProgram(t *testing.T) {
	for want, reply := range map[string]modeltest.Reply{
		"the answer was truncated at the maximum number of tokens": {Text: "```python\nresult = ", Stop: "length"},
		"the model declined to answer":                             {Text: "No.", Stop: "content_filter"},
		"the answer is empty":                                      {Stop: "tool_calls"}, // of a tool that it was not offered
		"the answer contains no Python code block":                 {Text: strings.Repeat("prose ", 150_000)},
		"the answer ends inside a code block":                      {Text: "```python\nresult = 1"},
		"the answer is too long":                                   {Text: strings.Repeat("prose ", 200_000)},
	} {
		each(t, replies(reply), func(t *testing.T, e *modeltest.Endpoint, cfg model.Config) {
			a, err := generator(t, cfg).Generate(t.Context(), sum)
			if !errors.Is(err, task.ErrNoProgram) || !strings.Contains(fault.Message(err), want) || a.Code != "" {
				t.Errorf("%+v, %v, want %s", a, err, want)
			}
			if a.Usage.Requests != 1 || a.Usage.InputTokens == 0 || len(e.Asked()) != 1 {
				t.Errorf("%+v", a.Usage)
			}
		})
	}
	each(t, replies(modeltest.Reply{Text: program + "This program", Stop: "length"}),
		func(t *testing.T, _ *modeltest.Endpoint, cfg model.Config) {
			if a, err := generator(t, cfg).Generate(t.Context(), sum); err != nil || a.Code == "" {
				t.Errorf("%+v, %v", a, err)
			}
		})
}

func TestGenerateRetriesTemporaryErrors(t *testing.T) {
	longtest.SkipSlow(t)
	for name, failed := range map[string]modeltest.Reply{
		"429":             {Status: 429, RetryAfter: "0", Code: "rate_limit_error"},
		"500":             {Status: 500, RetryAfter: "0", Code: "api_error"},
		"503":             {Status: 503, RetryAfter: time.Now().UTC().Format(http.TimeFormat)},
		"529":             {Status: 529, RetryAfter: "0", Code: "overloaded_error"},
		"in the stream":   {Text: program, Code: "overloaded_error"},
		"a closed stream": {Text: program, Cut: true},
		"no end":          {Raw: ": hello\n\n"},
		"no JSON":         {Raw: "data: hello\n\n"},
	} {
		each(t, replies(failed, modeltest.Reply{Text: program}), func(t *testing.T, e *modeltest.Endpoint, cfg model.Config) {
			a, err := generator(t, cfg).Generate(t.Context(), sum)
			if err != nil || a.Code == "" || a.Usage.Requests != 2 || len(e.Asked()) != 2 {
				t.Errorf("%s: %+v, %v", name, a, err)
			}
			if cut := failed.Text != ""; cut && cfg.APIVersion == "" && a.Usage.OutputTokens == modeltest.OutputTokens {
				t.Errorf("%s: the cost of the first request is not counted: %+v", name, a.Usage)
			}
		})
	}
}

func TestGenerateStopsRetrying(t *testing.T) {
	each(t, replies(modeltest.Reply{Status: 429, RetryAfter: "0", Code: "rate_limit_exceeded"}),
		func(t *testing.T, e *modeltest.Endpoint, cfg model.Config) {
			a, err := generator(t, cfg).Generate(t.Context(), sum)
			want := "the model endpoint at " + strings.TrimPrefix(e.URL, "http://") + " returned status 429 (rate_limit_exceeded)"
			if fault.KindOf(err) != fault.Exhausted || fault.Message(err) != want || len(e.Asked()) != 4 || a.Usage.Requests != 4 {
				t.Errorf("%d requests: %+v, %v", len(e.Asked()), a, err)
			}
			if errors.Is(err, task.ErrNoProgram) {
				t.Error("another attempt is invited")
			}
		})
}

func TestGenerateDoesNotRetryPermanentErrors(t *testing.T) {
	for _, c := range []struct {
		reply modeltest.Reply
		kind  fault.Kind
		want  string
	}{
		{modeltest.Reply{Status: 400, Code: "context_length_exceeded"}, fault.Invalid, "status 400 (context_length_exceeded)"},
		{modeltest.Reply{Status: 401}, fault.Denied, "status 401"},
		{modeltest.Reply{Status: 403, Code: modeltest.Key}, fault.Denied, "status 403"},
		{modeltest.Reply{Status: 404, Code: "model_not_found"}, fault.NotFound, "status 404 (model_not_found)"},
		{modeltest.Reply{Status: 429, Code: "insufficient_quota"}, fault.Exhausted, "status 429 (insufficient_quota)"},
		{modeltest.Reply{Status: 302}, fault.Invalid, "status 302"},
		{modeltest.Reply{Code: "authentication_error"}, fault.Unavailable, "reported an error in the stream (authentication_error)"},
	} {
		each(t, replies(c.reply), func(t *testing.T, e *modeltest.Endpoint, cfg model.Config) {
			_, err := generator(t, cfg).Generate(t.Context(), sum)
			if fault.KindOf(err) != c.kind || !strings.HasSuffix(fault.Message(err), c.want) || !strings.Contains(fault.Message(err),
				"127.0.0.1:") || len(e.Asked()) != 1 {
				t.Errorf("%d requests: %v", len(e.Asked()), err)
			}
			if all := fmt.Sprintf("%v %+v %s", err, err, fault.Hint(err)); strings.Contains(all, "sk-") || strings.Contains(all, "/v1") {
				t.Errorf("the error contains the key or the path: %s", all)
			}
		})
	}
}

func TestGenerateReportsAWrongKey(t *testing.T) {
	each(t, replies(), func(t *testing.T, e *modeltest.Endpoint, cfg model.Config) {
		cfg.Key = "sk-wrong"
		_, err := generator(t, cfg).Generate(t.Context(), sum)
		if fault.KindOf(err) != fault.Denied || strings.Contains(fmt.Sprintf("%+v %s", err, fault.Hint(err)), "sk-") {
			t.Error(err)
		}
	})
}

func TestGenerateEndsInTime(t *testing.T) {
	each(t, replies(modeltest.Reply{Hang: true}), func(t *testing.T, e *modeltest.Endpoint, cfg model.Config) {
		cfg.Timeout = 300 * time.Millisecond
		_, err := generator(t, cfg).Generate(t.Context(), sum)
		if fault.KindOf(err) != fault.Unavailable || !strings.HasSuffix(fault.Message(err), "did not answer within 300ms") ||
			len(e.Asked()) != 1 {
			t.Errorf("%d requests: %v", len(e.Asked()), err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		cfg.Timeout = time.Minute
		if _, err := generator(t, cfg).Generate(ctx, sum); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	})
}

// A pause that an endpoint demands is bounded, and ends with the context.
func TestGenerateDoesNotWaitAfterItsContext(t *testing.T) {
	each(t, replies(modeltest.Reply{Status: 503, RetryAfter: "86400"}), func(t *testing.T, _ *modeltest.Endpoint, cfg model.Config) {
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		if _, err := generator(t, cfg).Generate(ctx, sum); !strings.Contains(fault.Message(err), "status 503") {
			t.Error(err)
		}
	})
}

func TestGenerateReportsAnUnreachableEndpoint(t *testing.T) {
	g := generator(t, model.Config{Provider: model.OpenAI, URL: "http://127.0.0.1:1/v1", Name: "m", Key: "${KEY}"})
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err := g.Generate(ctx, sum)
	if fault.Message(err) != "the model endpoint at 127.0.0.1:1 cannot be reached" || strings.Contains(err.Error(), "/v1") {
		t.Error(err)
	}
}

func TestGenerateRejectsOtherContent(t *testing.T) {
	server := func(body string) *modeltest.Endpoint {
		e := modeltest.Serve(t, replies(modeltest.Reply{Raw: body}))
		return e
	}
	e := server(strings.Repeat("data: "+strings.Repeat("x", 2<<20)+"\n\n", 2))
	_, err := generator(t, providers(e)["openai"]).Generate(t.Context(), sum)
	if !errors.Is(err, task.ErrNoProgram) {
		t.Error(err)
	}
}

func TestBudgetLimitsRequests(t *testing.T) {
	each(t, replies(modeltest.Reply{Text: program}), func(t *testing.T, e *modeltest.Endpoint, cfg model.Config) {
		cfg.Budget = 3000
		r := sum
		r.Spent = task.Usage{InputTokens: 1000, OutputTokens: 500}
		if _, err := generator(t, cfg).Generate(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		if max := e.Asked()[0].MaxTokens; max > 1500-200 || max < model.MinAnswer {
			t.Errorf("an answer may have %d tokens", max)
		}
		r.Spent = task.Usage{InputTokens: 2000, OutputTokens: 600}
		a, err := generator(t, cfg).Generate(t.Context(), r)
		if fault.KindOf(err) != fault.Exhausted || !strings.Contains(fault.Message(err),
			"the budget of 3000 tokens does not suffice: 2600 are spent") || a.Usage.Requests != 0 || len(e.Asked()) != 1 {
			t.Errorf("%+v, %v", a, err)
		}
	})
}

// Requests that fail midway count too, so that an endpoint cannot use up more than the budget.
func TestBudgetCountsRepeatedRequests(t *testing.T) {
	longtest.SkipSlow(t)
	long := modeltest.Reply{Text: strings.Repeat("words ", 4000), Cut: true}
	each(t, replies(long), func(t *testing.T, e *modeltest.Endpoint, cfg model.Config) {
		cfg.Budget = 5000
		a, err := generator(t, cfg).Generate(t.Context(), sum)
		if fault.KindOf(err) != fault.Exhausted || len(e.Asked()) > 2 ||
			a.Usage.InputTokens+a.Usage.OutputTokens > 5000+modeltest.InputTokens+10 {
			t.Errorf("%d requests, %+v, %v", len(e.Asked()), a, err)
		}
	})
}

func TestBudgetOfMoney(t *testing.T) {
	each(t, replies(modeltest.Reply{Text: program}), func(t *testing.T, e *modeltest.Endpoint, cfg model.Config) {
		cfg.Prices = map[string]model.Price{"m": {Input: 2, Output: 10}, "other": {Input: 1000, Output: 1000}}
		cfg.BudgetCost = 0.02
		a, err := generator(t, cfg).Generate(t.Context(), sum)
		if err != nil {
			t.Fatal(err)
		}
		if want := (float64(a.Usage.InputTokens)*2 + float64(a.Usage.OutputTokens)*10) / 1e6; a.Usage.Cost != want || want == 0 {
			t.Errorf("%+v", a.Usage)
		}
		if max := e.Asked()[0].MaxTokens; max >= 2000 || max < 1800 {
			t.Errorf("an answer may have %d tokens", max)
		}
		r := sum
		r.Spent = task.Usage{Cost: 0.019}
		if _, err := generator(t, cfg).Generate(t.Context(), r); fault.KindOf(err) != fault.Exhausted ||
			!strings.Contains(fault.Message(err), "the budget of 0.02 does not suffice: 0.019 are spent") {
			t.Error(err)
		}
	})
}

func TestNewRejectsInvalidConfig(t *testing.T) {
	for _, cfg := range []model.Config{
		{}, {Provider: "x", Name: "m"}, {Provider: model.OpenAI, Key: "${KEY}"}, {Provider: model.OpenAI, Name: "m"},
		{Provider: model.Anthropic, Name: "m"},
		{Provider: model.Azure, Name: "m", Key: "${KEY}"}, {Provider: model.OpenAI, Name: "m", Key: "${KEY}", BudgetCost: 1},
	} {
		if _, err := model.New(cfg); fault.KindOf(err) != fault.Invalid ||
			fault.Hint(err) == "" && cfg.Provider != "" && cfg.Provider != "x" {
			t.Errorf("%+v: %v", cfg, err)
		}
	}
	for _, url := range []string{"127.0.0.1:80", "ftp://x", "http://user:sk-secret@x", "http://x?key=sk-secret", "::"} {
		_, err := generator(t, model.Config{Provider: model.OpenAI, Name: "m", URL: url}).Generate(t.Context(), sum)
		if fault.KindOf(err) != fault.Invalid || strings.Contains(err.Error(), "sk-") {
			t.Errorf("%s: %v", url, err)
		}
	}
}

func TestGenerateIsConcurrent(t *testing.T) {
	each(t, replies(modeltest.Reply{Text: program}), func(t *testing.T, e *modeltest.Endpoint, cfg model.Config) {
		g := generator(t, cfg)
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				if a, err := g.Generate(t.Context(), sum); err != nil || a.Code == "" {
					t.Errorf("%+v, %v", a, err)
				}
			})
		}
		wg.Wait()
	})
}
