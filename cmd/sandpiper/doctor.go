package main

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sandpiper-mcp/sandpiper/internal/daemon"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
)

func (a *app) doctorCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "doctor",
		Short: "Say what isolation is in force here, by trying it",
		Long: `Doctor starts a sandbox and tries every layer of isolation from the inside. For
each that does not hold it says what would make it hold on this machine.

The exit code is 0 if code can be executed, and 1 if not.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.runDoctor(cmd.Context()) },
	}
}

func (a *app) runDoctor(ctx context.Context) error {
	d, err := a.daemon(options{quiet: true})
	if err != nil {
		return err
	}
	defer d.Close()
	report := d.Probe(ctx)
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	cfg, err := a.load(nil)
	if err != nil {
		return err
	}
	var wanted *packagesState
	if s := statePackages(ctx, cfg.Packages); s.Wanted {
		wanted = &s
	}
	model, rules := tryModel(ctx, d), statePolicy(d)
	if a.json {
		err = a.writeJSON(struct {
			sandbox.Report
			Restricted bool           `json:"restricted"`
			Packages   *packagesState `json:"packages,omitempty"` // if any are wanted
			Model      *tried         `json:"search_by_meaning,omitempty"`
			Policy     policyState    `json:"policy"`
			Untrusted  []string       `json:"untrusted_files"`
		}{report, d.Runner.Restricted(), wanted, model, rules, append([]string{}, cfg.Untrusted...)})
	} else {
		a.printReport(report)
		a.printRestricted(d.Runner.Restricted())
		if wanted != nil {
			a.printf("\nPackages: %s.\n", visible(wanted.String()))
		}
		a.printModel(model)
		a.printf("\nPolicy: ")
		a.printPolicy(rules)
		if len(cfg.Untrusted) > 0 {
			a.printf("\n%s Not read, since you have not trusted it: %s. sandpiper trust shows what it would do.\n", styleFor(a.stdout).yellow("~"), visibleName(strings.Join(cfg.Untrusted, ", ")))
		}
	}
	if err == nil && !report.Working {
		return exit(exitFailed)
	}
	return err
}

func (a *app) printReport(r sandbox.Report) {
	s := styleFor(a.stdout)
	verdict := s.green("works: code can be executed")
	if !r.Working {
		verdict = s.red("does not work: execution is refused")
	}
	a.printf("The %s sandbox %s.\n\n", visibleName(r.Backend), verdict)
	for _, l := range r.Layers {
		a.printf("%s %-23s %-9s %s\n", mark(s, l), visibleName(l.Name), visibleName(l.State), visibleName(l.Detail))
		if l.Remedy != "" && l.State != "enforced" {
			a.printf("  %s %s\n", s.yellow("hint:"), visible(l.Remedy))
		}
	}
}

// printRestricted says that code is checked before it runs. It is no layer: no
// promise rests on it.
func (a *app) printRestricted(on bool) {
	if on {
		a.printf("\nCode is restricted to a part of Python besides (sandbox.restricted); that is a guardrail, not a layer.\n")
	}
}

// mark is the sign before a layer.
func mark(s style, l sandbox.Layer) string {
	switch l.State {
	case "enforced":
		return s.green("✓")
	case "failed":
		return s.red("✗")
	default:
		return s.yellow("~")
	}
}

// tried is what came of asking the embedding model.
type tried struct {
	Model   string `json:"model"`
	Working bool   `json:"working"`
	Reason  string `json:"reason,omitempty"`
	Hint    string `json:"hint,omitempty"`
}

// longestTry is how long a model may take for one text: it may have to be loaded.
const longestTry = 30 * time.Second

func tryModel(ctx context.Context, d *daemon.Daemon) *tried {
	if d.Meaning == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, longestTry)
	defer cancel()
	err := d.Meaning.Probe(ctx)
	t := &tried{Model: d.Meaning.State().Model, Working: err == nil}
	if err != nil {
		t.Reason, t.Hint = fault.Message(err), fault.Hint(err)
	}
	return t
}

// printModel says whether tools are found by meaning, if that is wanted.
func (a *app) printModel(t *tried) {
	if t == nil {
		return
	}
	s := styleFor(a.stdout)
	if t.Working {
		a.printf("\n%s Tools are found by meaning with %s.\n", s.green("✓"), visibleName(t.Model))
		return
	}
	a.printf("\n%s Tools are found by words alone: %s.\n", s.yellow("~"), visible(t.Reason))
	if t.Hint != "" {
		a.printf("  %s %s\n", s.yellow("hint:"), visible(t.Hint))
	}
}
