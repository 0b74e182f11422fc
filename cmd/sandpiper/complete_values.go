package main

import (
	"path"
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
	"github.com/sandpiper-mcp/sandpiper/internal/home/session"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/vault"
)

// argumentValues has the values of the arguments of each command, by position. Those of other
// commands are not known.
var argumentValues = map[string][]cli.Values{
	"approvals approve": {cli.Named(approval.OpenQuery)},
	"approvals deny":    {cli.Named(approval.OpenQuery)},
	"approvals revoke":  {cli.Named(grant.Query)},
	"approvals show":    {cli.Named(approval.NameQuery)},
	"exec":              {cli.LocalFiles},
	"executions answer": {cli.Named(journal.ActiveBackgroundQuery)},
	"executions cancel": {cli.Named(journal.ActiveBackgroundQuery)},
	"executions resume": {cli.Named(journal.UnfinishedQuery)},
	"executions run":    {cli.LocalFiles},
	"executions signal": {cli.Named(journal.ActiveBackgroundQuery)},
	"executions watch":  {cli.Named(journal.BackgroundQuery)},
	"files cat":         {workspaceFiles},
	"files ls":          {workspaceFiles},
	"files get":         {workspaceFiles},
	"files put":         {cli.LocalFiles},
	"files rm":          {workspaceFiles},
	"packages install":  {layerNames},
	"packages list":     {layerNames},
	"packages lock":     {layerNames},
	"pii disallow":      {cli.Named(vault.ExceptionQuery)},
	"pii scan":          {cli.LocalFiles},
	"policy check":      {toolNames},
	"servers add":       {nil, cli.LocalFiles},
	"servers disable":   {enabledServers},
	"servers enable":    {disabledServers},
	"servers remove":    {ownServers},
	"session resume":    {cli.Named(session.NameQuery), cli.LocalFiles},
	"session show":      {cli.Named(session.NameQuery)},
	"tenant activate":   {cli.TenantNames},
	"tenant delete":     {cli.TenantNames},
	"tenant key list":   {cli.TenantNames},
	"tenant key new":    {cli.TenantNames},
	"tenant quota":      {cli.TenantNames},
	"tenant show":       {cli.TenantNames},
	"tenant suspend":    {cli.TenantNames},
	"tenant tier":       {cli.TenantNames, tierNames},
	"tools accept":      {serverNames, toolsOfServer},
	"tools call":        {toolNames},
	"tools get":         {toolNames},
	"tools login":       {serverNames},
	"tools logout":      {serverNames},
	"tools list":        {serverNames},
	"tools sync":        {serverNames},
	"trust":             {cli.LocalDirs},
}

// flagValues returns the values of a flag; nil if they are not known.
func flagValues(f *pflag.Flag) cli.Values {
	if c, ok := f.Value.(*cli.Enum); ok {
		return func(cli.Request) ([]cobra.Completion, error) { return slices.Clone(c.Values), nil }
	}
	switch f.Name {
	case "tenant":
		return cli.TenantNames
	case "session":
		return cli.Named(session.NameQuery)
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
		return cli.LocalDirs
	}
	switch name, _ := pflag.UnquoteUsage(f); name {
	case "FILE", "PATH":
		return cli.LocalFiles
	case "DIR":
		return cli.LocalDirs
	}
	return nil
}

func tierNames(r cli.Request) ([]cobra.Completion, error) {
	if r.Cfg.Tenants == nil {
		return nil, nil
	}
	return r.Cfg.Tenants.Tiers(), nil
}

// workspaceFiles returns the entries of the directory in which the word is.
func workspaceFiles(r cli.Request) (all []cobra.Completion, err error) {
	dir, _ := path.Split(r.Word)
	names, err := home.FileNames(r.Cfg.DataDir, r.Tenant, dir)
	for _, name := range names {
		if !strings.HasPrefix(name, ".") || strings.HasPrefix(path.Base(r.Word), ".") {
			all = append(all, dir+name)
		}
	}
	return cli.Without(all, r.Args), err
}

func layerNames(r cli.Request) ([]cobra.Completion, error) { return r.Cfg.PackageLayerNames(), nil }

func categories(r cli.Request) (all []cobra.Completion, err error) {
	for _, s := range r.Cfg.Servers {
		if s.Category != "" {
			all = append(all, s.Category)
		}
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

func privateTypes(r cli.Request) ([]cobra.Completion, error) { return r.Cfg.PII.Types(), nil }

func scopes(cli.Request) (all []cobra.Completion, err error) {
	for _, s := range access.Scopes {
		all = append(all, string(s))
	}
	return all, nil
}

func serverNames(r cli.Request) (all []cobra.Completion, err error) {
	for _, s := range r.Cfg.Servers {
		all = append(all, cobra.CompletionWithDesc(s.Name, target(s)))
	}
	return cli.Without(all, r.Args), nil
}

// enabledServers returns the servers that are not of a project, whose file is edited by hand.
func enabledServers(r cli.Request) (all []cobra.Completion, err error) {
	for _, s := range r.Cfg.Servers {
		if !s.Project {
			all = append(all, cobra.CompletionWithDesc(s.Name, target(s)))
		}
	}
	return all, nil
}

func disabledServers(r cli.Request) ([]cobra.Completion, error) {
	return slices.Clone(r.Cfg.Disabled), nil
}

func ownServers(r cli.Request) ([]cobra.Completion, error) {
	all, err := enabledServers(r)
	return append(all, r.Cfg.Disabled...), err
}

// toolNames returns the tools of the server that the word names, or the servers if it names none.
func toolNames(r cli.Request) (all []cobra.Completion, err error) {
	for _, s := range r.Cfg.Servers {
		if strings.HasPrefix(r.Word, s.Name+".") {
			return listedTools(r.Cfg.DataDir, s, s.Name+".")
		}
	}
	for _, s := range r.Cfg.Servers {
		all = append(all, cobra.CompletionWithDesc(s.Name+".", target(s)))
	}
	if _, name, ok := strings.Cut(r.Word, "."); ok { // no server has this name
		for i, s := range r.Cfg.Servers {
			all[i] = s.Name + "." + name
		}
	}
	return all, nil
}

// toolsOfServer returns the tools of the server that the first argument names.
func toolsOfServer(r cli.Request) ([]cobra.Completion, error) {
	i := slices.IndexFunc(r.Cfg.Servers, func(s config.Server) bool { return len(r.Args) > 0 && s.Name == r.Args[0] })
	if i < 0 {
		return nil, nil
	}
	all, err := listedTools(r.Cfg.DataDir, r.Cfg.Servers[i], "")
	return cli.Without(all, r.Args[1:]), err
}

func listedTools(dir string, s config.Server, prefix string) (all []cobra.Completion, err error) {
	tools, err := daemon.ListedTools(dir, s)
	for _, t := range tools {
		all = append(all, cobra.CompletionWithDesc(prefix+t.Tool, t.Description))
	}
	return all, err
}
