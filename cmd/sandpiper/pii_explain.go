package main

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sandpiper-mcp/sandpiper/internal/cli"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
)

func explainCommand(env *cli.Env) *cobra.Command {
	return cli.OfTenant(env, &cobra.Command{
		Use: "explain [TEXT|-]", Short: "Show why values in a text are found",
		Long: `Explain prints the position, type and confidence of each value in TEXT or standard input,
with the rule that found it and its evidence, and whether an exception applies. Then it
prints what resembles a value and why it is not one. It prints no values and stores
nothing.`,
		Example: "  sandpiper pii explain \"card 4111 1111 1111 1111\"\n  sandpiper pii explain --json < notes.txt",
		Args:    cobra.MaximumNArgs(1),
		RunE:    func(cmd *cobra.Command, args []string) error { return runPIIExplain(cmd.Context(), env, args) },
	})
}

// explainedJSON is a finding or near miss in JSON.
type explainedJSON struct {
	Line     int         `json:"line"`
	Start    int         `json:"start"`
	End      int         `json:"end"`
	Type     detect.Type `json:"type"`
	Score    float64     `json:"score,omitempty"`
	Rule     string      `json:"rule,omitempty"`
	Evidence []string    `json:"evidence,omitempty"`
	Shown    string      `json:"shown,omitempty"`
	Reason   string      `json:"reason,omitempty"`
}

func runPIIExplain(ctx context.Context, env *cli.Env, args []string) error {
	text, err := argumentOrStdin(env, args)
	if err != nil {
		return err
	}
	return withGate(ctx, env, func(e *redact.Gate) error {
		values, near, err := e.Explain(ctx, text)
		if err != nil {
			return err
		}
		found, missed := []explainedJSON{}, []explainedJSON{}
		for _, f := range values {
			j := positionIn(text, f.Start, f.End)
			j.Type, j.Score, j.Rule, j.Evidence, j.Shown = f.Type, f.Score, f.Rule, f.Evidence, f.Shown
			found = append(found, j)
		}
		for _, m := range near {
			j := positionIn(text, m.Start, m.End)
			j.Type, j.Reason = m.Type, m.Reason
			missed = append(missed, j)
		}
		if env.JSON {
			return env.WriteJSON(map[string]any{"findings": found, "near_misses": missed})
		}
		printExplained(env, found, missed)
		return nil
	})
}

// positionIn returns the line of a range of text, and the range within the line.
func positionIn(text string, start, end int) explainedJSON {
	lineStart := strings.LastIndexByte(text[:start], '\n') + 1
	return explainedJSON{Line: 1 + strings.Count(text[:start], "\n"), Start: start - lineStart, End: end - lineStart}
}

func printExplained(env *cli.Env, found, missed []explainedJSON) {
	for _, f := range found {
		env.Printf("%d:%d-%d %s %.2f %s\n", f.Line, f.Start, f.End, f.Type, f.Score, f.Rule)
		for _, e := range f.Evidence {
			env.Printf("    %s\n", cli.Visible(e))
		}
		if f.Shown != "" {
			env.Printf("    not replaced: %s\n", f.Shown)
		}
	}
	for _, m := range missed {
		env.Printf("%d:%d-%d not %s: %s\n", m.Line, m.Start, m.End, m.Type, cli.Visible(m.Reason))
	}
	if len(found)+len(missed) == 0 {
		env.Printf("Nothing in the text resembles personal data or a secret.\n")
	}
}
