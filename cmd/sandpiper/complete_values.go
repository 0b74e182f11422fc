package main

import (
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sandpiper-mcp/sandpiper/internal/access"
	"github.com/sandpiper-mcp/sandpiper/internal/cli"
	"github.com/sandpiper-mcp/sandpiper/internal/config"
	"github.com/sandpiper-mcp/sandpiper/internal/daemon"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/home/approval"
	"github.com/sandpiper-mcp/sandpiper/internal/home/approval/grant"
	"github.com/sandpiper-mcp/sandpiper/internal/home/journal"
	"github.com/sandpiper-mcp/sandpiper/internal/home/schedule"
	"github.com/sandpiper-mcp/sandpiper/internal/home/session"
	"github.com/sandpiper-mcp/sandpiper/internal/home/skill"
	"github.com/sandpiper-mcp/sandpiper/internal/home/state"
	"github.com/sandpiper-mcp/sandpiper/internal/home/workflow"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/vault"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

// argumentValues has the values of the arguments of each command, by position. Those of other
// commands are not known.
var argumentValues = map[string][]values{
	"approvals approve": {named(approval.OpenQuery)},
	"approvals deny":    {named(approval.OpenQuery)},
	"approvals revoke":  {named(grant.Query)},
	"approvals show":    {named(approval.NameQuery)},
	"backup":            {localFiles},
	"exec":              {localFiles},
	"executions answer": {named(journal.ActiveBackgroundQuery)},
	"executions cancel": {named(journal.ActiveBackgroundQuery)},
	"executions resume": {named(journal.UnfinishedQuery)},
	"executions run":    {localFiles},
	"executions signal": {named(journal.ActiveBackgroundQuery)},
	"executions watch":  {named(journal.BackgroundQuery)},
	"files cat":         {workspaceFiles},
	"files ls":          {workspaceFiles},
	"files get":         {workspaceFiles},
	"files put":         {localFiles},
	"files rm":          {workspaceFiles},
	"models add":        {modelNames, localFiles},
	"models remove":     {modelNames},
	"packages install":  {layerNames},
	"packages list":     {layerNames},
	"packages lock":     {layerNames},
	"pii disallow":      {named(vault.ExceptionQuery)},
	"pii scan":          {localFiles},
	"policy check":      {toolNames},
	"restore":           {localFiles},
	"schedules delete":  {named(schedule.AgentQuery)},
	"schedules pause":   {scheduleNames},
	"schedules resume":  {scheduleNames},
	"schedules run":     {scheduleNames},
	"servers add":       {nil, localFiles},
	"servers disable":   {enabledServers},
	"servers enable":    {disabledServers},
	"servers remove":    {ownServers},
	"session resume":    {named(session.NameQuery), localFiles},
	"session show":      {named(session.NameQuery)},
	"skills delete":     {named(skill.NameQuery)},
	"skills export":     {named(skill.NameQuery)},
	"skills import":     {localDirs},
	"skills load":       {named(skill.NameQuery)},
	"skills save":       {named(skill.NameQuery), localFiles},
	"skills test":       {named(skill.NameQuery)},
	"state delete":      {named(state.NameQuery)},
	"state get":         {named(state.NameQuery)},
	"state set":         {named(state.NameQuery)},
	"tenant activate":   {tenantNames},
	"tenant delete":     {tenantNames},
	"tenant export":     {tenantNames},
	"tenant import":     {localFiles},
	"tenant key list":   {tenantNames},
	"tenant key new":    {tenantNames},
	"tenant quota":      {tenantNames},
	"tenant show":       {tenantNames},
	"tenant suspend":    {tenantNames},
	"tenant tier":       {tenantNames, tierNames},
	"tools accept":      {serverNames, toolsOfServer},
	"tools call":        {toolNames},
	"tools get":         {toolNames},
	"tools login":       {serverNames},
	"tools logout":      {serverNames},
	"tools list":        {serverNames},
	"tools sync":        {serverNames},
	"trust":             {localDirs},
	"workflow cancel":   {named(journal.OpenWorkflowQuery)},
	"workflow check":    {localFiles},
	"workflow delete":   {named(workflow.NameQuery)},
	"workflow history":  {workflowNames},
	"workflow resume":   {named(journal.OpenWorkflowQuery)},
	"workflow run":      {workflowNames},
	"workflow save":     {localFiles},
	"workflow show":     {workflowsAndRuns},
}

// flagValues returns the values of a flag; nil if they are not known.
func flagValues(f *pflag.Flag) values {
	if c, ok := f.Value.(*cli.Enum); ok {
		return func(request) ([]cobra.Completion, error) { return slices.Clone(c.Values), nil }
	}
	switch f.Name {
	case "tenant":
		return tenantNames
	case "session":
		return named(session.NameQuery)
	case "tier":
		return tierNames
	case "tool":
		return toolNames
	case "category":
		return categories
	case "type":
		return privateTypes
	case "scope":
		return scopes
	case "to":
		return localDirs
	}
	switch name, _ := pflag.UnquoteUsage(f); name {
	case "FILE", "PATH":
		return localFiles
	case "DIR":
		return localDirs
	}
	return nil
}

// named returns values that a query finds in the database of the tenant; see home.Names.
func named(query string) values {
	return func(r request) (all []cobra.Completion, err error) {
		names, err := home.Names(r.ctx, r.cfg.DataDir, r.tenant, query)
		for _, n := range names {
			all = append(all, cobra.CompletionWithDesc(n.Name, n.About))
		}
		return without(all, r.args), err
	}
}

// without returns the values that are not among the arguments before.
func without(all []cobra.Completion, args []string) []cobra.Completion {
	return slices.DeleteFunc(all, func(c cobra.Completion) bool {
		name, _, _ := strings.Cut(c, "\t")
		return slices.Contains(args, name)
	})
}

func tenantNames(r request) ([]cobra.Completion, error) {
	all, err := home.TenantNames(r.cfg.DataDir)
	for _, t := range r.cfg.HTTP.Tokens {
		all = append(all, t.Tenant.String())
	}
	all = append(all, r.cfg.Tenants.Named()...)
	slices.Sort(all)
	return slices.Compact(all), err
}

func tierNames(r request) ([]cobra.Completion, error) {
	if r.cfg.Tenants == nil {
		return nil, nil
	}
	return r.cfg.Tenants.Tiers(), nil
}

// workspaceFiles returns the entries of the directory in which the word is.
func workspaceFiles(r request) (all []cobra.Completion, err error) {
	dir, _ := path.Split(r.word)
	names, err := home.FileNames(r.cfg.DataDir, r.tenant, dir)
	for _, name := range names {
		if !strings.HasPrefix(name, ".") || strings.HasPrefix(path.Base(r.word), ".") {
			all = append(all, dir+name)
		}
	}
	return without(all, r.args), err
}

func modelNames(r request) (all []cobra.Completion, err error) {
	models, err := daemon.Models(r.cfg.DataDir).List()
	for _, m := range models {
		all = append(all, m.Name)
	}
	return all, err
}

func layerNames(r request) ([]cobra.Completion, error) { return r.cfg.PackageLayerNames(), nil }

func categories(r request) (all []cobra.Completion, err error) {
	for _, s := range r.cfg.Servers {
		if s.Category != "" {
			all = append(all, s.Category)
		}
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

func privateTypes(r request) ([]cobra.Completion, error) { return r.cfg.PII.Types(), nil }

func scopes(request) (all []cobra.Completion, err error) {
	for _, s := range access.Scopes {
		all = append(all, string(s))
	}
	return all, nil
}

// scheduleNames returns the schedules of the configuration, and those of agents.
func scheduleNames(r request) ([]cobra.Completion, error) {
	all, err := named(schedule.AgentQuery)(r)
	for _, s := range r.cfg.SchedulesOf(r.tenant, tenant.Local) {
		all = append(all, s.Name)
	}
	return all, err
}

func serverNames(r request) (all []cobra.Completion, err error) {
	for _, s := range r.cfg.Servers {
		all = append(all, cobra.CompletionWithDesc(s.Name, target(s)))
	}
	return without(all, r.args), nil
}

// enabledServers returns the servers that are not of a project, whose file is edited by hand.
func enabledServers(r request) (all []cobra.Completion, err error) {
	for _, s := range r.cfg.Servers {
		if !s.Project {
			all = append(all, cobra.CompletionWithDesc(s.Name, target(s)))
		}
	}
	return all, nil
}

func disabledServers(r request) ([]cobra.Completion, error) { return slices.Clone(r.cfg.Disabled), nil }

func ownServers(r request) ([]cobra.Completion, error) {
	all, err := enabledServers(r)
	return append(all, r.cfg.Disabled...), err
}

// toolNames returns the tools of the server that the word names, or the servers if it names none.
func toolNames(r request) (all []cobra.Completion, err error) {
	for _, s := range r.cfg.Servers {
		if strings.HasPrefix(r.word, s.Name+".") {
			return listedTools(r.cfg.DataDir, s, s.Name+".")
		}
	}
	for _, s := range r.cfg.Servers {
		all = append(all, cobra.CompletionWithDesc(s.Name+".", target(s)))
	}
	if _, name, ok := strings.Cut(r.word, "."); ok { // no server has this name
		for i, s := range r.cfg.Servers {
			all[i] = s.Name + "." + name
		}
	}
	return all, nil
}

// toolsOfServer returns the tools of the server that the first argument names.
func toolsOfServer(r request) ([]cobra.Completion, error) {
	i := slices.IndexFunc(r.cfg.Servers, func(s config.Server) bool { return len(r.args) > 0 && s.Name == r.args[0] })
	if i < 0 {
		return nil, nil
	}
	all, err := listedTools(r.cfg.DataDir, r.cfg.Servers[i], "")
	return without(all, r.args[1:]), err
}

func listedTools(dir string, s config.Server, prefix string) (all []cobra.Completion, err error) {
	tools, err := daemon.ListedTools(dir, s)
	for _, t := range tools {
		all = append(all, cobra.CompletionWithDesc(prefix+t.Tool, t.Description))
	}
	return all, err
}

// workflowNames returns the saved workflows, and those in the directory of the configuration.
func workflowNames(r request) ([]cobra.Completion, error) {
	all, err := named(workflow.NameQuery)(r)
	if r.cfg.Workflows != "" {
		files, _ := filepath.Glob(filepath.Join(r.cfg.Workflows, "*.y*ml"))
		for _, f := range files {
			all = append(all, strings.TrimSuffix(filepath.Base(f), filepath.Ext(f)))
		}
	}
	return all, err
}

func workflowsAndRuns(r request) ([]cobra.Completion, error) {
	all, err := workflowNames(r)
	runs, _ := named(journal.WorkflowQuery)(r)
	return append(all, runs...), err
}
