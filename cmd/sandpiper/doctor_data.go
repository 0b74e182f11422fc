package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/sandpiper-mcp/sandpiper/internal/audit"
	"github.com/sandpiper-mcp/sandpiper/internal/cli"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/store"
	"github.com/sandpiper-mcp/sandpiper/internal/store/durable"
	"github.com/sandpiper-mcp/sandpiper/internal/store/secret"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

// dataDiagnosis is the output of doctor --data.
type dataDiagnosis struct {
	Success   bool         `json:"success"`
	Databases int          `json:"databases"`
	Damaged   []damage     `json:"damaged"`
	Audit     audit.Report `json:"audit"`
}

// damage describes a damaged part of a data directory.
type damage struct {
	Tenant string `json:"tenant,omitempty"`
	Part   string `json:"part"` // "database", "access keys", "master key", "audit log" or "disk"
	Error  string `json:"error"`
	Hint   string `json:"hint,omitempty"`
}

// doctorData checks the data directory and prints the result.
func doctorData(ctx context.Context, env *cli.Env) error {
	cfg, err := cli.LoadConfig(env, nil)
	if err != nil {
		return err
	}
	r, err := diagnoseData(ctx, env, cfg.DataDir)
	if err != nil {
		return err
	}
	if env.JSON {
		err = env.WriteJSON(r)
	} else {
		printData(env, r)
	}
	if err == nil && !r.Success {
		return cli.Exit(cli.ExitFailed)
	}
	return err
}

func diagnoseData(ctx context.Context, env *cli.Env, dir string) (dataDiagnosis, error) {
	r := dataDiagnosis{Damaged: []damage{}}
	add := func(id, part string, err error) {
		if err != nil {
			r.Damaged = append(r.Damaged, damage{id, part, fault.Message(err), cli.Completed(env, fault.Hint(err))})
		}
	}
	if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
		r.Success = true
		return r, nil
	}
	if err := durable.Probe(dir); err != nil {
		add("", "disk", fault.Wrap(fault.Unavailable, err, "nothing can be written to %s: %v", dir, err))
	}
	err := home.Examine(ctx, dir, func(id tenant.ID, err error) {
		r.Databases++
		add(id.String(), "database", err)
	})
	if err != nil {
		return r, err
	}
	add("", "master key", secret.KeyFile(filepath.Join(dir, "key")).Check()) // without it, no value can be decrypted
	add("", "access keys", store.Examine(ctx, filepath.Join(dir, "access.db")))
	if r.Audit, err = verifyAudit(ctx, env, dir); err != nil {
		add("", "audit log", err)
	} else if p := r.Audit.Problem; p != nil {
		add("", "audit log", fault.New(fault.Internal, "%s: %s", p.Kind, p.Text).
			WithHint("`sandpiper audit verify` shows where; docs/audit.md describes how to start over"))
	}
	r.Success = len(r.Damaged) == 0
	return r, nil
}

func printData(env *cli.Env, r dataDiagnosis) {
	s := cli.StyleFor(env.Stdout)
	for _, d := range r.Damaged {
		what := d.Part
		if d.Tenant != "" {
			what += " of tenant " + d.Tenant
		}
		env.Printf("%s %s: %s\n", s.Red("✗"), cli.VisibleName(what), cli.Visible(d.Error))
		if d.Hint != "" {
			env.Printf("  %s %s\n", s.Yellow("hint:"), cli.Visible(d.Hint))
		}
	}
	if r.Success {
		env.Printf("%s %s and %s of the audit log are intact.\n", s.Green("✓"), cli.Count(r.Databases, "database"),
			cli.Count(int(r.Audit.Lines), "line"))
	}
}
