package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sandpiper-mcp/sandpiper/internal/audit"
	"github.com/sandpiper-mcp/sandpiper/internal/cli"
	"github.com/sandpiper-mcp/sandpiper/internal/daemon"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

func auditCommand(env *cli.Env) *cobra.Command {
	return cli.Group("audit", "Verify and print the audit log",
		&cobra.Command{
			Use: "verify", Short: "Verify the integrity of the audit log",
			Long: `Verify reads the whole log and reports the first line that was changed, deleted,
reordered or truncated, with exit code 1. It may run while daemons write. For its
guarantees and limits see docs/audit.md.`,
			Args: cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error { return runAuditVerify(cmd.Context(), env) },
		},
		auditTailCommand(env),
	)
}

type tailOptions struct {
	last   int
	follow bool
	tenant string
}

func auditTailCommand(env *cli.Env) *cobra.Command {
	var o tailOptions
	c := &cobra.Command{
		Use: "tail", Short: "Print the last lines of the audit log",
		Long: `Tail prints the last executions, tool calls, policy decisions, restored tokens, logins
and configuration changes. With --json it prints the lines as they are in the log.
Lines are not verified.`,
		Example: "  sandpiper audit tail -f\n  sandpiper audit tail -n 100 --tenant acme --json",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return runAuditTail(cmd.Context(), env, o) },
	}
	c.Flags().IntVarP(&o.last, "lines", "n", 20, "at most `N` lines")
	c.Flags().BoolVarP(&o.follow, "follow", "f", false, "print new lines until interrupted")
	c.Flags().Var((*cli.UIDFlag)(&o.tenant), "tenant", "only lines of the tenant `ID`")
	return c
}

func runAuditVerify(ctx context.Context, env *cli.Env) error {
	cfg, err := cli.LoadConfig(env, nil)
	if err != nil {
		return err
	}
	r, err := verifyAudit(ctx, env, cfg.DataDir)
	if err != nil {
		return err
	}
	if env.JSON {
		err = env.WriteJSON(struct {
			Success bool `json:"success"`
			audit.Report
		}{r.Problem == nil, r})
	} else {
		printVerification(env, r, daemon.AuditDir(cfg.DataDir))
	}
	if err == nil && r.Problem != nil {
		err = cli.Exit(cli.ExitFailed)
	}
	return err
}

// verifyAudit verifies the log. Without a log it needs no key.
func verifyAudit(ctx context.Context, env *cli.Env, dataDir string) (r audit.Report, err error) {
	if _, err := os.Stat(daemon.AuditDir(dataDir)); errors.Is(err, fs.ErrNotExist) {
		return audit.Report{}, nil
	}
	cfg, err := daemon.AuditConfig(dataDir)
	if err != nil {
		return r, err
	}
	defer env.Working("verifying the audit log")()
	return audit.Verify(ctx, cfg)
}

func printVerification(env *cli.Env, r audit.Report, dir string) {
	if p := r.Problem; p != nil {
		where := filepath.Join(dir, p.File)
		if p.Line > 0 {
			where += fmt.Sprintf(":%d", p.Line)
		}
		env.Printf("%s: %s: %s\n", cli.VisibleName(where), p.Kind, p.Text)
		return
	}
	env.Printf("%s, in %s: intact\n", cli.Count(int(r.Lines), "line"), cli.Count(r.Files, "file"))
	if r.Seq > 0 {
		env.Printf("last line: %d, hash %s\n", r.Seq, r.Hash)
	}
	if r.Retired > 0 {
		env.Printf("%d earlier lines were deleted according to audit.max_age and audit.max_mb\n", r.Retired)
	}
	if r.Torn > 0 {
		env.Printf("the log ends with %d bytes of an incomplete line\n", r.Torn)
	}
}

func runAuditTail(ctx context.Context, env *cli.Env, o tailOptions) error {
	if o.last < 0 {
		return cli.Usagef("--lines is %d; it must be 0 or more", o.last)
	}
	opts := audit.TailOptions{Last: o.last, Follow: o.follow}
	cfg, err := cli.LoadConfig(env, nil)
	if err != nil {
		return err
	}
	if o.tenant != "" {
		if opts.Tenant, err = tenant.ParseStored(o.tenant); err != nil {
			return err
		}
		if err := checkInAudit(ctx, env, cfg.DataDir, opts.Tenant); err != nil {
			return err
		}
	}
	n := 0
	err = audit.Tail(ctx, audit.Config{Dir: daemon.AuditDir(cfg.DataDir)}, opts, func(r audit.Record) error {
		n++
		if env.JSON {
			return env.WriteJSON(r)
		}
		_, err := fmt.Fprintln(env.Stdout, cli.Completed(env, cli.VisibleName(recordLine(r))))
		return err
	})
	if o.follow && ctx.Err() != nil { // interrupted by the user
		return nil
	}
	if err == nil && o.last > 0 {
		of := ""
		if o.tenant != "" {
			of = " of tenant " + o.tenant
		}
		env.PrintEmpty(n, "the audit log in %s has no lines%s; executions and calls of tools add them", daemon.AuditDir(cfg.DataDir), of)
	}
	return err
}

// checkInAudit returns an error for a tenant that neither exists nor has lines in the log, as a
// deleted one has.
func checkInAudit(ctx context.Context, env *cli.Env, dataDir string, id tenant.ID) error {
	found := false
	err := audit.Tail(ctx, audit.Config{Dir: daemon.AuditDir(dataDir)}, audit.TailOptions{Last: 1, Tenant: id}, func(audit.Record) error {
		found = true
		return nil
	})
	if err != nil || found {
		return err
	}
	return cli.WithDaemon(env, func(d *daemon.Daemon) error { return d.CheckTenant(id) })
}

// maxShownTokens is the maximum number of tokens printed per line.
const maxShownTokens = 5

// recordLine formats a line of the log for display.
func recordLine(r audit.Record) string {
	if r.Kind == audit.Unreadable {
		return "unreadable line; run `sandpiper audit verify`"
	}
	words := []string{fmt.Sprintf("%d", r.Seq), r.Time.Local().Format("2006-01-02 15:04:05.000"), fmt.Sprintf("%-13s", r.Kind)}
	add := func(format, value string) {
		if value != "" {
			words = append(words, fmt.Sprintf(format, value))
		}
	}
	add("%s", r.Tenant.String())
	add("%s", strings.Trim(r.Server+"."+r.Tool, "."))
	add("to %s", r.Destination)
	add("%s", r.Decision)
	add("at the %s", strings.ReplaceAll(r.By, "_", " ")) // where the user answered
	add("by %s", r.Rule)
	add("%s", r.Outcome)
	add("%s", r.Section)
	if r.Kind == audit.Configuration && r.Section == "" {
		add("%s", "all sections")
	}
	if r.Count > 0 && r.Kind == audit.Execution {
		add("%s", cli.Count(int(r.Count), "call"))
	} else if r.Count > 1 {
		add("%s times", fmt.Sprint(r.Count))
	}
	add("approval %s", r.Approval)
	if r.Lost > 0 {
		add("%s dropped", cli.Count(int(r.Lost), "line"))
	}
	if r.Through > 0 {
		add("through %s", fmt.Sprint(r.Through))
	}
	if r.Duration > 0 {
		add("in %s", r.Duration.Round(time.Microsecond).String())
	}
	for _, t := range slices.Sorted(maps.Keys(r.Types)) {
		words = append(words, fmt.Sprintf("%d %s", r.Types[t], t))
	}
	words = append(words, r.Tokens[:min(len(r.Tokens), maxShownTokens)]...)
	if n := len(r.Tokens) - maxShownTokens; n > 0 {
		words = append(words, fmt.Sprintf("… %d more", n))
	}
	add("session %s", r.Session)
	add("%s", r.Execution)
	return strings.Join(words, " ")
}
