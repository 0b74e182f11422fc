package main

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sandpiper-mcp/sandpiper/internal/cli"
	"github.com/sandpiper-mcp/sandpiper/internal/config"
	"github.com/sandpiper-mcp/sandpiper/internal/daemon"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/policy"
)

type trustOptions struct {
	dir               string
	yes, revoke, list bool
}

func trustCommand(env *cli.Env) *cobra.Command {
	var o trustOptions
	c := &cobra.Command{
		Use:   "trust [DIR]",
		Short: "Trust the configuration files of a project",
		Long: `Trust shows the effects of sandpiper.yaml (or config.yaml) and .env in DIR, by default
the working directory, and the programs that they would run. If you confirm, commands
and daemons that start in DIR read them from then on. Trust is bound to the path and
the content of each file: a changed file must be trusted again.

A project can add servers, and make policy, privacy and limits stricter than your own
configuration, never looser. A file given with --config or SANDPIPER_CONFIG needs no
trust.`,
		Example: `  sandpiper trust
  sandpiper trust ~/src/shop
  sandpiper trust --revoke
  sandpiper trust --list`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				o.dir = args[0]
			}
			return runTrust(cmd.Context(), env, o)
		},
	}
	c.Flags().BoolVarP(&o.yes, "yes", "y", false, "do not ask for confirmation")
	c.Flags().BoolVar(&o.revoke, "revoke", false, "stop trusting the files of DIR")
	c.Flags().BoolVar(&o.list, "list", false, "list all trusted files")
	c.MarkFlagsMutuallyExclusive("yes", "revoke", "list")
	return c
}

// proposal describes the effects of the files of a project.
type proposal struct {
	Success   bool                 `json:"success"` // they are trusted
	Dir       string               `json:"directory"`
	Files     []config.ProjectFile `json:"files"`
	Servers   []proposedServer     `json:"servers"`
	Hooks     [][]string           `json:"hooks"`
	Reads     []string             `json:"reads"`
	Writes    []string             `json:"writes"`
	Variables []string             `json:"variables"` // that .env sets
	Warnings  []string             `json:"warnings"`
}

// proposedServer is a server that a project would add.
type proposedServer struct {
	Name     string   `json:"name"`
	Runs     []string `json:"runs,omitempty"` // the program with its arguments
	In       string   `json:"in,omitempty"`   // where it runs
	Calls    string   `json:"calls,omitempty"`
	Document string   `json:"document,omitempty"` // of an API
	Gets     []string `json:"gets,omitempty"`     // variables and headers, with references unexpanded
}

func runTrust(ctx context.Context, env *cli.Env, o trustOptions) error {
	dir, err := filepath.Abs(o.dir)
	if err != nil {
		return err
	}
	if info, err := os.Stat(dir); !o.list && !o.revoke && (err != nil || !info.IsDir()) {
		return fault.New(fault.NotFound, "there is no directory %s", dir)
	}
	switch {
	case o.list:
		return printTrusted(env, config.TrustedFiles(os.Environ()), "trusted")
	case o.revoke:
		removed, err := config.Distrust(os.Environ(), dir)
		if err != nil {
			return err
		}
		return printTrusted(env, removed, "no longer trusted")
	}
	p, files, err := propose(env, dir)
	if err != nil {
		return err
	}
	if !env.JSON {
		showProposal(env, p)
	}
	ask := cli.IsTerminal(env.Stdin) && !o.yes && !env.JSON
	if !slices.ContainsFunc(files, func(f config.ProjectFile) bool { return f.State != config.Trusted }) {
		p.Success = true
	} else if !ask && !o.yes {
		return cli.Usagef("nothing was trusted: confirmation needs a terminal; use --yes")
	} else if ask && !env.Confirm(ctx, false, "Trust these files?") {
		env.Printf("Nothing was trusted.\n")
		return cli.Exit(cli.ExitFailed)
	} else if err := config.Trust(os.Environ(), files); err != nil {
		return err
	} else {
		p.Success = true
		env.PrintDone("%s read from now on", fileNames(files))
	}
	if env.JSON {
		return env.WriteJSON(p)
	}
	return nil
}

func fileNames(files []config.ProjectFile) string {
	var names []string
	for _, f := range files {
		names = append(names, f.Name())
	}
	if len(names) == 1 {
		return names[0] + " is"
	}
	return strings.Join(names, " and ") + " are"
}

func printTrusted(env *cli.Env, paths []string, state string) error {
	if env.JSON {
		return env.WriteJSON(map[string]any{"success": true, "files": append([]string{}, paths...)})
	}
	for _, path := range paths {
		env.Printf("%s\n", cli.VisibleName(path))
	}
	if len(paths) == 0 {
		env.Printf("no file is %s\n", state)
	}
	return nil
}

// propose reads the files of a project as if they were trusted. Their hashes ensure that
// the displayed content is the content that is trusted later.
func propose(env *cli.Env, dir string) (*proposal, []config.ProjectFile, error) {
	src := config.Sources{Dir: dir, Features: daemon.Sections(env.Features), Environ: withoutVariable(os.Environ(), "SANDPIPER_CONFIG"),
		Assume: map[string]string{}}
	files, err := config.Project(src)
	if err != nil {
		return nil, nil, err
	}
	if len(files) == 0 {
		return nil, nil, fault.New(fault.NotFound, "there is no project configuration in %s", dir).
			WithHint("a project configuration is sandpiper.yaml, config.yaml or .env; your own configuration needs no trust")
	}
	for _, f := range files {
		if f.Hash == "" {
			return nil, nil, fault.New(fault.Invalid, "%s cannot be read", f.Path)
		}
		src.Assume[f.Path] = f.Hash
	}
	cfg, err := config.Load(src)
	if err != nil {
		return nil, nil, err
	}
	if _, err := policy.New(cfg.Policy); err != nil {
		return nil, nil, err
	}
	return newProposal(dir, files, cfg), files, nil
}

func withoutVariable(environ []string, name string) []string {
	return slices.DeleteFunc(slices.Clone(environ), func(e string) bool { return strings.HasPrefix(e, name+"=") })
}

func newProposal(dir string, files []config.ProjectFile, cfg *config.Config) *proposal {
	add := cfg.Project
	p := &proposal{Dir: dir, Files: files, Servers: []proposedServer{}, Hooks: append([][]string{}, add.Hooks...),
		Reads: append([]string{}, add.Reads...), Writes: append([]string{}, add.Writes...),
		Variables: slices.Sorted(maps.Keys(add.Variables)), Warnings: append([]string{}, cfg.Warnings...)}
	// References to variables of .env are expanded, to show the programs that would run.
	// Values of the user's own environment may be secrets and are not expanded.
	expand := func(text string) string {
		for name, value := range add.Variables {
			if now, ok := cfg.Lookup(name); ok && now == value {
				text = strings.ReplaceAll(text, "${"+name+"}", value)
			}
		}
		return text
	}
	for _, s := range cfg.Servers {
		if !s.Project {
			continue
		}
		server := proposedServer{Name: s.Name, Calls: expand(s.URL)}
		if s.Command != "" {
			for _, part := range append([]string{s.Command}, s.Args...) {
				server.Runs = append(server.Runs, expand(part))
			}
			if s.Dir != dir {
				server.In = s.Dir
			}
		}
		for name, value := range s.Env {
			server.Gets = append(server.Gets, name+"="+value)
		}
		for name, value := range s.Headers {
			server.Gets = append(server.Gets, name+": "+value)
		}
		if s.API != nil {
			server.Document, server.Calls = expand(s.API.Document), expand(s.API.URL)
			server.Gets = append(server.Gets, s.API.Secrets...)
		}
		slices.Sort(server.Gets)
		p.Servers = append(p.Servers, server)
	}
	return p
}

func showProposal(env *cli.Env, p *proposal) {
	s := cli.StyleFor(env.Stdout)
	for _, f := range p.Files {
		env.Printf("%s  %s\n", cli.VisibleName(f.Path), s.Dim(string(f.State)))
	}
	for _, v := range p.Servers {
		env.Printf("server %s", cli.VisibleName(v.Name))
		if len(v.Runs) > 0 {
			env.Printf(" runs: %s", cli.VisibleName(commandLine(v.Runs)))
		}
		if v.In != "" {
			env.Printf(" (in %s)", cli.VisibleName(v.In))
		}
		if v.Document != "" {
			env.Printf(" is described by: %s", cli.VisibleName(v.Document))
		}
		if v.Calls != "" {
			env.Printf(" calls: %s", cli.VisibleName(v.Calls))
		}
		env.Printf("\n")
		for _, setting := range v.Gets {
			env.Printf("    gets %s\n", cli.VisibleName(setting))
		}
	}
	for _, h := range p.Hooks {
		env.Printf("hook runs: %s\n", cli.VisibleName(commandLine(h)))
	}
	for _, path := range p.Reads {
		env.Printf("reads %s\n", cli.VisibleName(path))
	}
	for _, path := range p.Writes {
		env.Printf("writes %s\n", cli.VisibleName(path))
	}
	if len(p.Variables) > 0 {
		env.Printf(".env sets %s\n", cli.VisibleName(strings.Join(p.Variables, ", ")))
	}
	if len(p.Servers)+len(p.Hooks)+len(p.Reads)+len(p.Writes) == 0 {
		env.Printf("It runs no program and calls no server.\n")
	}
	for _, w := range p.Warnings {
		env.Printf("%s %s\n", s.Yellow("~"), cli.VisibleName(w))
	}
}

// commandLine formats a program with its arguments, quoted where necessary.
func commandLine(words []string) string {
	var all []string
	for _, w := range words {
		if w == "" || strings.ContainsAny(w, " \t\n\"'\\$`;|&<>()") {
			w = strconv.Quote(w)
		}
		all = append(all, w)
	}
	return strings.Join(all, " ")
}
