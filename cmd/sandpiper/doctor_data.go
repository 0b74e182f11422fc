package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/sandpiper-mcp/sandpiper/internal/audit"
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
func doctorData(ctx context.Context, env *app) error {
	cfg, err := loadConfig(env, nil)
	if err != nil {
		return err
	}
	r, err := diagnoseData(ctx, env, cfg.DataDir)
	if err != nil {
		return err
	}
	if env.json {
		err = env.writeJSON(r)
	} else {
		printData(env, r)
	}
	if err == nil && !r.Success {
		return exit(exitFailed)
	}
	return err
}

func diagnoseData(ctx context.Context, env *app, dir string) (dataDiagnosis, error) {
	r := dataDiagnosis{Damaged: []damage{}}
	add := func(id, part string, err error) {
		if err != nil {
			r.Damaged = append(r.Damaged, damage{id, part, fault.Message(err), completed(env, fault.Hint(err))})
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
		add("", "audit log", fault.New(fault.Internal, "%s: %s", p.Kind, p.Text).WithHint("`sandpiper audit verify` shows where; docs/audit.md describes how to start over"))
	}
	r.Success = len(r.Damaged) == 0
	return r, nil
}

func printData(env *app, r dataDiagnosis) {
	s := styleFor(env.stdout)
	for _, d := range r.Damaged {
		what := d.Part
		if d.Tenant != "" {
			what += " of tenant " + d.Tenant
		}
		env.printf("%s %s: %s\n", s.red("✗"), visibleName(what), visible(d.Error))
		if d.Hint != "" {
			env.printf("  %s %s\n", s.yellow("hint:"), visible(d.Hint))
		}
	}
	if r.Success {
		env.printf("%s %s and %s of the audit log are intact.\n", s.green("✓"), count(r.Databases, "database"), count(int(r.Audit.Lines), "line"))
	}
}
