package main

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/sandpiper-mcp/sandpiper/internal/cli"
	"github.com/sandpiper-mcp/sandpiper/internal/daemon"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/home/quota"
)

func quotaCommand(env *cli.Env) *cobra.Command {
	return &cobra.Command{
		Use: "quota ID", Short: "Print the quotas and limits of a tenant, and what it has used",
		Long: `Quota prints what a tenant has used of each quota, and its limits. They are set below
quotas:, workspace:, sandbox:, sessions: and pii: in the configuration, for all tenants, for a tier
or for one tenant.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return runTenantQuota(cmd.Context(), env, args[0]) },
	}
}

// usedQuota is one line of tenant quota.
type usedQuota struct {
	Name  string `json:"quota"`
	Used  *int64 `json:"used,omitempty"` // nil for a limit of each execution
	Limit int64  `json:"limit"`          // 0 means none
	Retry int64  `json:"retry_after_seconds,omitempty"`
}

func runTenantQuota(ctx context.Context, env *cli.Env, uid string) error {
	env.Tenant = uid
	return cli.WithDaemonHome(ctx, env, func(d *daemon.Daemon, h *home.Home) error {
		all, err := usedQuotas(ctx, d, h)
		if err != nil {
			return err
		}
		if env.JSON {
			return env.WriteJSON(map[string]any{"customer_uid": h.ID(), "quotas": all})
		}
		env.Printf("%-26s %12s %12s\n", "quota", "used", "limit")
		for _, q := range all {
			used, limit, note := "", fmt.Sprint(q.Limit), ""
			if q.Used != nil {
				used = fmt.Sprint(*q.Used)
			}
			if q.Limit == 0 {
				limit = "none"
			}
			if q.Retry > 0 {
				note = fmt.Sprintf("  available again in %s", time.Duration(q.Retry)*time.Second)
			}
			env.Printf("%-26s %12s %12s%s\n", q.Name, used, limit, note)
		}
		return nil
	})
}

func usedQuotas(ctx context.Context, d *daemon.Daemon, h *home.Home) ([]usedQuota, error) {
	disk, err := h.Workspace.Usage(ctx)
	if err != nil {
		return nil, err
	}
	counted, err := h.Quotas.Status(ctx)
	if err != nil {
		return nil, err
	}
	c := d.Settings(h.ID())
	files := int64(disk.Files)
	all := []usedQuota{
		{Name: "workspace bytes", Used: &disk.Bytes, Limit: c.Workspace.Quota.Bytes},
		{Name: "workspace files", Used: &files, Limit: c.Workspace.Quota.Files},
	}
	for _, q := range counted {
		one := usedQuota{Name: string(q.Name), Used: &q.Used, Limit: q.Limit}
		if q.Retry > 0 {
			one.Retry = quota.RetrySeconds(q.Retry)
		}
		all = append(all, one)
	}
	return append(all,
		usedQuota{Name: "concurrent executions", Limit: int64(c.Admit.WithDefaults().PerOwner)},
		usedQuota{Name: "live interpreters", Limit: int64(c.Sessions.WithDefaults().PerTenant)},
		usedQuota{Name: "memory_mb of an execution", Limit: int64(c.Limits.MaxMemoryMB)},
		usedQuota{Name: "tokens in the vault", Limit: int64(cmp.Or(c.PII.Tokens, 500_000))},
	), nil
}
