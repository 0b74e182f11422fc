package cli

import (
	"context"
	"errors"
	"path"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sandpiper-mcp/sandpiper/internal/config"
	"github.com/sandpiper-mcp/sandpiper/internal/daemon"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

// Request asks for the values that an argument or a flag can have.
type Request struct {
	ctx    context.Context
	Cfg    *config.Config
	Tenant tenant.ID
	Args   []string // those before it
	Word   string   // its beginning, or a misspelled value
}

// Values returns the possible values of an argument or a flag, each with an optional description
// after a tab. It reads what is on disk, starts nothing and creates nothing.
type Values func(r Request) ([]cobra.Completion, error)

// shellDirective is the error of values that the shell completes itself.
type shellDirective cobra.ShellCompDirective

func (shellDirective) Error() string { return "the shell completes it" }

// LocalFiles lets the shell complete names of files.
func LocalFiles(Request) ([]cobra.Completion, error) {
	return nil, shellDirective(cobra.ShellCompDirectiveDefault)
}

// LocalDirs lets the shell complete names of directories.
func LocalDirs(Request) ([]cobra.Completion, error) {
	return nil, shellDirective(cobra.ShellCompDirectiveFilterDirs)
}

// complete returns the completions of a word. It ignores errors: a message in the middle of a
// command line would not help.
func complete(ctx context.Context, env *Env, v Values, args []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
	all, err := listValues(ctx, env, v, args, word)
	if d, ok := errors.AsType[shellDirective](err); ok {
		return nil, cobra.ShellCompDirective(d)
	}
	var found []cobra.Completion
	for _, one := range all {
		name, about, _ := strings.Cut(one, "\t")
		if strings.HasPrefix(name, word) && VisibleName(name) == name {
			found = append(found, cobra.CompletionWithDesc(name, strings.TrimSpace(Fit(VisibleName(FirstLine(about)), 60))))
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
func listValues(ctx context.Context, env *Env, v Values, args []string, word string) ([]cobra.Completion, error) {
	if v == nil {
		return nil, nil
	}
	cfg, err := daemon.Load(config.Sources{File: env.ConfigFile, Features: daemon.Sections(env.Features)})
	if err != nil {
		return nil, err
	}
	id, err := env.TenantID()
	if err != nil {
		return nil, err
	}
	return v(Request{ctx, cfg, id, args, word})
}

// Named returns values that a query finds in the database of the tenant; see home.Names.
func Named(query string) Values {
	return func(r Request) (all []cobra.Completion, err error) {
		names, err := home.Names(r.ctx, r.Cfg.DataDir, r.Tenant, query)
		for _, n := range names {
			all = append(all, cobra.CompletionWithDesc(n.Name, n.About))
		}
		return Without(all, r.Args), err
	}
}

// Without returns the values that are not among the arguments before.
func Without(all []cobra.Completion, args []string) []cobra.Completion {
	return slices.DeleteFunc(all, func(c cobra.Completion) bool {
		name, _, _ := strings.Cut(c, "\t")
		return slices.Contains(args, name)
	})
}

// SetArguments sets the values of the arguments of a command, by position. The last are those of all
// further arguments.
func SetArguments(env *Env, c *cobra.Command, all ...Values) {
	env.arguments[c] = all
	c.ValidArgsFunction = func(c *cobra.Command, args []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return complete(c.Context(), env, valuesOf(env, c, len(args)), args, word)
	}
}

// valuesOf returns the values of argument n of a command; nil if they are not known.
func valuesOf(env *Env, c *cobra.Command, n int) Values {
	all := env.arguments[c]
	if n >= len(all) && len(all) > 0 && strings.Contains(c.Use, "...") {
		n = len(all) - 1 // the last one may be repeated
	}
	if n >= len(all) {
		return nil
	}
	return all[n]
}

// SetFlag sets the values of a flag of a command.
func SetFlag(env *Env, c *cobra.Command, name string, v Values) {
	_ = c.RegisterFlagCompletionFunc(name, func(c *cobra.Command, args []string, word string) ([]cobra.Completion,
		cobra.ShellCompDirective) {
		return complete(c.Context(), env, v, args, word)
	})
}

// Suggest adds a similar name to the error for an argument that does not exist.
func Suggest(ctx context.Context, env *Env, c *cobra.Command, err error) error {
	f, ok := errors.AsType[*fault.Error](err)
	if !ok || f.Kind != fault.NotFound || strings.Contains(f.Message+f.Hint, "did you mean") {
		return err
	}
	args := c.Flags().Args()
	for i, arg := range args {
		all, _ := listValues(ctx, env, valuesOf(env, c, i), args[:i], arg) // with an error there are fewer suggestions
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

func FirstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return line
}
