package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sandpiper-mcp/sandpiper/internal/cli"
	"github.com/sandpiper-mcp/sandpiper/internal/config"
	"github.com/sandpiper-mcp/sandpiper/internal/daemon"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
)

func doctorCommand(env *cli.Env) *cobra.Command {
	var data bool
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Test and report the isolation on this machine",
		Long: `Doctor starts a sandbox and tests every layer of isolation from the inside. For each
layer that is not enforced it prints a remedy for this machine. It does not create the data
directory.

If tiers, tenants or rules of the policy select other sandboxes, these are tested too.

The exit code is 0 if code can be executed in all of them, and 1 if not.

With --data it checks the data directory instead: it reads every database and the audit log
completely, and names the tenant and the remedy of what is damaged, with exit code 1. Daemons may
use the data meanwhile.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if data {
				return doctorData(cmd.Context(), env)
			}
			return runDoctor(cmd.Context(), env)
		},
	}
	c.Flags().BoolVar(&data, "data", false, "check the data directory instead")
	return c
}

func runDoctor(ctx context.Context, env *cli.Env) error {
	cfg, err := cli.LoadConfig(env, nil)
	if err != nil {
		return err
	}
	dir := temporaryDataDir(cfg.DataDir)
	if dir != "" {
		defer os.RemoveAll(dir)
	}
	d, err := cli.OpenDaemon(env, cli.Options{Quiet: true, DataDir: dir})
	if err != nil {
		return err
	}
	defer d.Close()
	done := env.Working("testing the sandbox")
	r, err := diagnose(ctx, env, d)
	done()
	if err != nil {
		return err
	}
	if env.JSON {
		err = env.WriteJSON(r)
	} else {
		printDiagnosis(env, r)
	}
	if err == nil && !r.works() {
		return cli.Exit(cli.ExitFailed)
	}
	return err
}

// temporaryDataDir creates a directory to use in place of a data directory that does not exist, since
// doctor must not create that. It is in the next parent that exists, so that it has the same file
// system. Its name is no longer than the default one, since sockets have short paths. It returns "" if
// the data directory exists, or if nothing can be created there, which opening the data directory
// reports.
func temporaryDataDir(dir string) string {
	if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	parent := filepath.Dir(dir)
	for !isDir(parent) && parent != filepath.Dir(parent) {
		parent = filepath.Dir(parent)
	}
	temporary := filepath.Join(parent, ".sp-"+rand.Text()[:5])
	if os.Mkdir(temporary, 0o700) != nil {
		return ""
	}
	return temporary
}

// diagnosis is the output of doctor.
type diagnosis struct {
	sandbox.Report
	Others     []daemon.SandboxReport `json:"other_sandboxes,omitempty"` // that tenants or rules select
	Restricted bool                   `json:"restricted"`
	Packages   *packagesState         `json:"packages,omitempty"` // if any are wanted
	Layers     []packagesState        `json:"package_layers,omitempty"`
	Model      *modelState            `json:"search_by_meaning,omitempty"`
	Policy     policyState            `json:"policy"`
	Untrusted  []string               `json:"untrusted_files"`
	probed     []probed
}

// MarshalJSON adds the probes of features.
func (r diagnosis) MarshalJSON() ([]byte, error) {
	type plain diagnosis
	text, err := json.Marshal(plain(r))
	for _, p := range r.probed {
		state, wrong := json.Marshal(map[string]modelState{p.Key: p.state})
		text, err = append(append(text[:len(text)-1], ','), state[1:]...), errors.Join(err, wrong)
	}
	return text, err
}

// works reports whether all sandboxes work.
func (r diagnosis) works() bool {
	return r.Working && !slices.ContainsFunc(r.Others, func(o daemon.SandboxReport) bool { return !o.Working })
}

// diagnose tests the sandbox and the models.
func diagnose(ctx context.Context, env *cli.Env, d *daemon.Daemon) (diagnosis, error) {
	r := diagnosis{Report: daemon.Probe(ctx, d), Others: daemon.ProbeOthers(ctx, d), Restricted: d.Runner.Restriction.On()}
	if ctx.Err() != nil {
		return r, context.Cause(ctx)
	}
	cfg, err := cli.LoadConfig(env, nil)
	if err != nil {
		return r, err
	}
	layers, err := layersOf(cfg, nil)
	if err != nil {
		return r, err
	}
	for _, l := range layers {
		s := newPackagesState(ctx, l)
		s.Hint = cli.Completed(env, s.Hint)
		switch {
		case !s.Wanted:
		case l.name == "" || l.name == config.DefaultPackageLayer:
			r.Packages = &s
		default:
			r.Layers = append(r.Layers, s)
		}
	}
	r.Model, r.Policy = probeModel(ctx, d), newPolicyState(d)
	r.probed = runProbes(ctx, d)
	r.Untrusted = append([]string{}, cfg.Untrusted...)
	return r, nil
}

func printDiagnosis(env *cli.Env, r diagnosis) {
	printReport(env, r.Report)
	for _, o := range r.Others {
		env.Printf("\nSelected by %s: ", cli.VisibleName(o.By))
		printReport(env, o.Report)
	}
	printRestricted(env, r.Restricted)
	packages := r.Layers
	if r.Packages != nil {
		packages = append([]packagesState{*r.Packages}, packages...)
	}
	for _, s := range packages {
		env.Printf("\nPackages: %s.\n", cli.Visible(s.String()))
	}
	printModel(env, r.Model)
	for _, p := range r.probed {
		p.print(env)
	}
	env.Printf("\nPolicy: ")
	printPolicy(env, r.Policy)
	if len(r.Untrusted) > 0 {
		env.Printf("\n%s Not read, because it is not trusted: %s. %s shows its effects.\n", cli.StyleFor(env.Stdout).Yellow("~"),
			cli.VisibleName(strings.Join(r.Untrusted, ", ")), cli.AsPasted(env, "`sandpiper trust`"))
	}
}

func printReport(env *cli.Env, r sandbox.Report) {
	s := cli.StyleFor(env.Stdout)
	verdict := s.Green("works: code can be executed")
	if !r.Working {
		verdict = s.Red("does not work: execution is refused")
	}
	env.Printf("The %s sandbox %s.\n\n", cli.VisibleName(r.Backend), verdict)
	for _, l := range r.Layers {
		env.Printf("%s %-23s %-9s %s\n", mark(s, l), cli.VisibleName(l.Name), cli.VisibleName(l.State), cli.VisibleName(l.Detail))
		if l.Remedy != "" && l.State != "enforced" {
			env.Printf("  %s %s\n", s.Yellow("hint:"), cli.Visible(l.Remedy))
		}
	}
}

// printRestricted reports whether sandbox.restricted is on. It is not an isolation layer:
// no guarantee depends on it.
func printRestricted(env *cli.Env, on bool) {
	if on {
		env.Printf("\nCode is also restricted to a subset of Python (sandbox.restricted); that is a guardrail, not an isolation layer.\n")
	}
}

// mark returns the symbol for the state of a layer.
func mark(s cli.Style, l sandbox.Layer) string {
	switch l.State {
	case "enforced":
		return s.Green("✓")
	case "failed":
		return s.Red("✗")
	default:
		return s.Yellow("~")
	}
}

// modelState is the result of probing a model.
type modelState struct {
	Model   string `json:"model"`
	Working bool   `json:"working"`
	Reason  string `json:"reason,omitempty"`
	Hint    string `json:"hint,omitempty"`
}

// maxProbeTime is the time limit of the probe. The model may have to be loaded first.
const maxProbeTime = 30 * time.Second

func probeModel(ctx context.Context, d *daemon.Daemon) *modelState {
	if d.Meaning == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, maxProbeTime)
	defer cancel()
	err := d.Meaning.Probe(ctx)
	t := newModelState(d.Meaning.State().Model, err)
	return &t
}

func newModelState(name string, err error) modelState {
	t := modelState{Model: name, Working: err == nil}
	if err != nil {
		t.Reason, t.Hint = fault.Message(err), fault.Hint(err)
	}
	return t
}

// probed is a probe of a feature with its result.
type probed struct {
	daemon.ModelProbe
	state modelState
}

// runProbes runs the probes of features.
func runProbes(ctx context.Context, d *daemon.Daemon) (all []probed) {
	for _, p := range daemon.Probes(d) {
		ctx, cancel := context.WithTimeout(ctx, maxProbeTime)
		all = append(all, probed{p, newModelState(p.Model, p.Run(ctx))})
		cancel()
	}
	return all
}

func (p probed) print(env *cli.Env) {
	s := cli.StyleFor(env.Stdout)
	if p.state.Working {
		env.Printf("\n%s The %s answers: %s.\n", s.Green("✓"), p.About, cli.VisibleName(p.Model))
		return
	}
	env.Printf("\n%s The %s, %s, does not work: %s.\n", s.Yellow("~"), p.About, cli.VisibleName(p.Model), cli.Visible(p.state.Reason))
	if p.state.Hint != "" {
		env.Printf("  %s %s\n", s.Yellow("hint:"), cli.Visible(p.state.Hint))
	}
}

// printModel reports whether semantic search works, if it is configured.
func printModel(env *cli.Env, t *modelState) {
	if t == nil {
		return
	}
	s := cli.StyleFor(env.Stdout)
	if t.Working {
		env.Printf("\n%s Semantic search of tools works with %s.\n", s.Green("✓"), cli.VisibleName(t.Model))
		return
	}
	env.Printf("\n%s Tools are searched by keywords only: %s.\n", s.Yellow("~"), cli.Visible(t.Reason))
	if t.Hint != "" {
		env.Printf("  %s %s\n", s.Yellow("hint:"), cli.Visible(t.Hint))
	}
}
