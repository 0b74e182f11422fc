package main

import (
	"context"
	"errors"
	"path"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sandpiper-mcp/sandpiper/internal/cli"
	"github.com/sandpiper-mcp/sandpiper/internal/config"
	"github.com/sandpiper-mcp/sandpiper/internal/daemon"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

// request asks for the values that an argument or a flag can have.
type request struct {
	ctx    context.Context
	cfg    *config.Config
	tenant tenant.ID
	args   []string // those before it
	word   string   // its beginning, or a misspelled value
}

// values returns the possible values of an argument or a flag, each with an optional description
// after a tab. It reads what is on disk, starts nothing and creates nothing.
type values func(r request) ([]cobra.Completion, error)

// shellDirective is the error of values that the shell completes itself.
type shellDirective cobra.ShellCompDirective

func (shellDirective) Error() string { return "the shell completes it" }

// localFiles lets the shell complete names of files.
func localFiles(request) ([]cobra.Completion, error) {
	return nil, shellDirective(cobra.ShellCompDirectiveDefault)
}

// localDirs lets the shell complete names of directories.
func localDirs(request) ([]cobra.Completion, error) {
	return nil, shellDirective(cobra.ShellCompDirectiveFilterDirs)
}

// addCompletions sets the completion of all arguments and flags of c and its subcommands.
func addCompletions(env *cli.Env, c *cobra.Command) {
	if len(argumentValues[commandName(c)]) > 0 {
		c.ValidArgsFunction = func(c *cobra.Command, args []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return complete(c.Context(), env, valuesOf(c, len(args)), args, word)
		}
	}
	c.LocalFlags().VisitAll(func(f *pflag.Flag) {
		v := flagValues(f)
		if v == nil {
			return
		}
		_ = c.RegisterFlagCompletionFunc(f.Name, func(c *cobra.Command, args []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return complete(c.Context(), env, v, args, word)
		})
	})
	for _, sub := range c.Commands() {
		addCompletions(env, sub)
	}
}

// commandName returns the words of a command after the name of the program.
func commandName(c *cobra.Command) string {
	return strings.TrimPrefix(strings.TrimPrefix(c.CommandPath(), c.Root().Name()), " ")
}

// valuesOf returns the values of argument n of a command; nil if they are not known.
func valuesOf(c *cobra.Command, n int) values {
	all := argumentValues[commandName(c)]
	if n >= len(all) && len(all) > 0 && strings.Contains(c.Use, "...") {
		n = len(all) - 1 // the last one may be repeated
	}
	if n >= len(all) {
		return nil
	}
	return all[n]
}

// complete returns the completions of a word. It ignores errors: a message in the middle of a
// command line would not help.
func complete(ctx context.Context, env *cli.Env, v values, args []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
	all, err := listValues(ctx, env, v, args, word)
	if d, ok := errors.AsType[shellDirective](err); ok {
		return nil, cobra.ShellCompDirective(d)
	}
	var found []cobra.Completion
	for _, one := range all {
		name, about, _ := strings.Cut(one, "\t")
		if strings.HasPrefix(name, word) && cli.VisibleName(name) == name {
			found = append(found, cobra.CompletionWithDesc(name, strings.TrimSpace(cli.Fit(cli.VisibleName(firstLineOf(about)), 60))))
		}
	}
	directive := cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	if len(found) == 1 && strings.ContainsAny(last(found[0]), "/.") { // a directory, or a server whose tools follow
		directive |= cobra.ShellCompDirectiveNoSpace
	}
	return found, directive
}

// last returns the last character of the name of a completion.
func last(c cobra.Completion) string {
	name, _, _ := strings.Cut(c, "\t")
	return name[max(0, len(name)-1):]
}

// listValues returns the values of an argument or a flag.
func listValues(ctx context.Context, env *cli.Env, v values, args []string, word string) ([]cobra.Completion, error) {
	if v == nil {
		return nil, nil
	}
	cfg, err := daemon.Load(config.Sources{File: env.ConfigFile})
	if err != nil {
		return nil, err
	}
	id, err := env.TenantID()
	if err != nil {
		return nil, err
	}
	return v(request{ctx, cfg, id, args, word})
}

// suggest adds a similar name to the error for an argument that does not exist.
func suggest(ctx context.Context, env *cli.Env, c *cobra.Command, err error) error {
	f, ok := errors.AsType[*fault.Error](err)
	if !ok || f.Kind != fault.NotFound || strings.Contains(f.Message+f.Hint, "did you mean") {
		return err
	}
	args := c.Flags().Args()
	for i, arg := range args {
		all, _ := listValues(ctx, env, valuesOf(c, i), args[:i], arg) // with an error there are fewer suggestions
		known := false
		for n, one := range all {
			all[n], _, _ = strings.Cut(one, "\t")
			known = known || all[n] == arg
		}
		if near := fault.Nearest(arg, all, 1); near != nil && !known && strings.Contains(f.Message, path.Base(arg)) {
			return f.WithHint("did you mean %s?", strings.TrimRight(near[0], "./"))
		}
	}
	return err
}
