package quota

import (
	"fmt"
	"math"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// Name is the name of a quota, as in the configuration.
type Name string

// The quotas.
const (
	Executions Name = "executions_per_minute"
	CPU        Name = "cpu_seconds_per_day" // counted in milliseconds
	Calls      Name = "calls_per_day"       // of tools of upstream servers
	// ModelTokens are those that ask_llm and tasks exchange with the configured model.
	ModelTokens Name = "model_tokens_per_day"
)

// Names lists all quotas.
var Names = []Name{Executions, CPU, Calls, ModelTokens}

// What ModelUse is made of. These are counted without a limit.
const (
	modelRequests Name = "model_requests"
	modelInput    Name = "model_input_tokens"
	modelOutput   Name = "model_output_tokens"
	modelCost     Name = "model_cost" // in billionths
)

// period returns the period of a quota.
func (n Name) period() time.Duration {
	if n == Executions {
		return time.Minute
	}
	return 24 * time.Hour
}

// unit returns the amount that counts as 1 of the quota.
func (n Name) unit() int64 {
	if n == CPU {
		return 1000
	}
	return 1
}

// Limits are the quotas of a tenant; one that is absent is unlimited.
type Limits map[Name]int64

// Status is the state of one quota.
type Status struct {
	Name   Name
	Limit  int64
	Used   int64 // in the last Period
	Period time.Duration
	// Retry is the time until something of it is available again; 0 means now.
	Retry time.Duration
}

// Left returns how much is available.
func (s Status) Left() int64 { return max(s.Limit-s.Used, 0) }

// Exceeded is the error of a quota that is used up. Its Unwrap returns the message.
type Exceeded struct {
	Status
	err *fault.Error
}

func (e *Exceeded) Error() string { return e.err.Error() }

func (e *Exceeded) Unwrap() error { return e.err }

func (s Status) exceeded() error {
	seconds := RetrySeconds(s.Retry)
	return &Exceeded{s, fault.New(fault.Exhausted, "the quota %s is used up (%d of %d)", s.Name, s.Used, s.Limit).
		WithHint("try again in %s; the operator can raise quotas.%s", spell(time.Duration(seconds)*time.Second), s.Name).
		WithQuota(string(s.Name))}
}

// RetrySeconds returns whole seconds, rounded up and at least 1.
func RetrySeconds(d time.Duration) int64 { return max(int64(math.Ceil(d.Seconds())), 1) }

// spell returns a duration in its largest unit of which there are two, rounded up. Hours have minutes,
// so that a day and a step is not called 25 hours.
func spell(d time.Duration) string {
	unit, name := time.Second, "second"
	switch {
	case d >= 2*time.Hour:
		minutes := (d + time.Minute - 1) / time.Minute
		switch text := fmt.Sprintf("%d hours", minutes/60); minutes % 60 {
		case 0:
			return text
		case 1:
			return text + " and 1 minute"
		default:
			return fmt.Sprintf("%s and %d minutes", text, minutes%60)
		}
	case d >= 2*time.Minute:
		unit, name = time.Minute, "minute"
	}
	n := (d + unit - 1) / unit
	if n == 1 {
		return "1 " + name
	}
	return fmt.Sprintf("%d %ss", n, name)
}
