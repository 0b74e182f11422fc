// Package pycode reads Python source of a tenant without running it: whether it compiles, what it names, and
// whether the tools that it uses exist. What a compiler or a parser has to find out is found out in a
// sandbox, since hostile source can make them use much time and memory.
//
// A Checker is safe for concurrent use. Other functions look for words in the text.
package pycode

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/sandpiper-mcp/sandpiper/internal/execution/reply"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/tools"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/guardrail"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

// MaxBytes limits the code of a request.
const MaxBytes = 1 << 20

// Check rejects code that cannot be Python source.
func Check(code string) error {
	switch {
	case strings.TrimSpace(code) == "":
		return fault.New(fault.Invalid, "code is empty; pass the Python to run")
	case len(code) > MaxBytes:
		return fault.New(fault.Invalid, "code has %d bytes; at most %d are allowed", len(code), MaxBytes).
			WithHint("write data to a workspace file and read it from the code")
	case strings.IndexByte(code, 0) >= 0:
		return fault.New(fault.Invalid, "code has a NUL character at byte %d; Python source must not contain one",
			strings.IndexByte(code, 0))
	case !utf8.ValidString(code):
		return fault.New(fault.Invalid, "code is not valid UTF-8")
	}
	return nil
}

// Checker checks and changes source.
type Checker struct {
	// Run runs code of Sandpiper in a sandbox of a tenant, with the limits of a compilation.
	Run     func(ctx context.Context, h *home.Home, code string, vars json.RawMessage) (reply.Result, error)
	Guard   func() *guardrail.Guard
	Privacy *redact.Rules
	Tools   *tools.Components    // nil means that code has none
	Network func(tenant.ID) bool // reports whether code of a tenant may send requests
}

// Evaluate runs code of Sandpiper with variables and decodes its result into to. The error of code that
// fails begins with what.
func (c Checker) Evaluate(ctx context.Context, h *home.Home, code string, vars any, what string, to any) error {
	raw, err := json.Marshal(vars)
	if err != nil {
		return fmt.Errorf("marshal the source: %w", err)
	}
	done, err := c.Run(ctx, h, code, raw)
	if err != nil {
		return err
	}
	if !done.Success() {
		return fault.New(fault.Invalid, "%s: %.300s", what, done.Error)
	}
	if err := json.Unmarshal(done.Value, to); err != nil {
		return fmt.Errorf("decode the checked source: %w", err)
	}
	return nil
}

// guarded is Check with the guardrails on code that is saved.
func (c Checker) guarded(ctx context.Context, code string) error {
	if err := Check(code); err != nil {
		return err
	}
	return CheckGuard(ctx, c.Guard(), code)
}

// CheckGuard refuses code that is to be saved: saved code runs without another check.
func CheckGuard(ctx context.Context, g *guardrail.Guard, code string) error {
	refused := guardrail.Refusals(g.CheckCode(ctx, code, nil))
	if len(refused) == 0 {
		return nil
	}
	return fault.New(fault.Denied, "the code was not saved: %s", refused[0]).WithHint("%s", refused[0].Remedy)
}
