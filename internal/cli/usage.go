package cli

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sandpiper-mcp/sandpiper/internal/clock"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// usage is an error in the command line.
type usage struct{ error }

// Usagef returns an error in the command line, formatted as fmt.Errorf does.
func Usagef(format string, args ...any) error { return usage{fmt.Errorf(format, args...)} }

// UnknownCommand is the error for a word that is not a subcommand of c, with similar ones.
func UnknownCommand(c *cobra.Command, word string) error {
	var names, meant, deeper []string
	for _, sub := range c.Commands() {
		if slices.Contains(sub.SuggestFor, word) {
			meant = []string{sub.Name()}
		}
		if sub.IsAvailableCommand() {
			names = append(names, sub.Name())
		}
		for _, s := range sub.Commands() {
			if s.Name() == word {
				deeper = append(deeper, s.CommandPath())
			}
		}
	}
	for _, group := range c.Root().Commands() { // a command that another group has
		for _, s := range group.Commands() {
			if s.Name() == word && c.HasParent() {
				deeper = append(deeper, s.CommandPath())
			}
		}
	}
	path := c.CommandPath()
	var near string
	if meant == nil {
		meant = fault.Nearest(word, names, 1)
	}
	if meant != nil {
		near = fmt.Sprintf("; did you mean %s %s?", path, meant[0])
	} else if len(deeper) > 0 {
		near = "; did you mean " + strings.Join(deeper[:min(3, len(deeper))], " or ") + "?"
	}
	return fmt.Errorf("%.60q is not a command of %s%s", word, path, near)
}

// FlagError describes an error of the flags of c.
func FlagError(c *cobra.Command, err error) error {
	if c.HasSubCommands() { // a flag after an unknown command is not the mistake
		if err := c.ValidateArgs(c.Flags().Args()); err != nil {
			return err
		}
	}
	help := "; see " + c.CommandPath() + " --help"
	if e, ok := errors.AsType[*pflag.NotExistError](err); ok {
		name := e.GetSpecifiedName()
		if c.Name() == "add" && strings.Contains(c.Use, " -- ") {
			help = "; if it is a flag of the server's program, write -- before the program: " + c.CommandPath() +
				" NAME -- COMMAND [ARG...]"
		}
		if strings.HasPrefix(c.CommandPath(), "sandpiper tenant ") && e.GetSpecifiedShortnames() != "" {
			help = "; an id that begins with '-' follows --: " + c.CommandPath() + " -- -" + e.GetSpecifiedShortnames()
		}
		if e.GetSpecifiedShortnames() != "" {
			return Usagef("there is no flag -%s%s", name, help)
		}
		var names []string
		c.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
		if near := fault.Nearest(name, names, 1); near != nil {
			help = "; did you mean --" + near[0] + "?"
		}
		return Usagef("there is no flag --%s%s", name, help)
	}
	if e, ok := errors.AsType[*pflag.ValueRequiredError](err); ok {
		return Usagef("--%s needs a value%s", e.GetFlag().Name, help)
	}
	if e, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		f := e.GetFlag()
		if c, ok := f.Value.(*Enum); ok {
			return Usagef("--%s is %.60q; it must be %s", f.Name, e.GetValue(), c.allowed(e.GetValue()))
		}
		if allowed := allowedValues(f.Value.Type()); allowed != "" {
			return Usagef("--%s is %.60q; it must be %s", f.Name, e.GetValue(), allowed)
		}
		return Usagef("--%s is %.60q: %w", f.Name, e.GetValue(), e.Unwrap())
	}
	if e, ok := errors.AsType[*pflag.InvalidSyntaxError](err); ok {
		return Usagef("%.60q is not a flag%s", e.GetSpecifiedFlag(), help)
	}
	return usage{err}
}

// allowedValues describes the values of a type of flags, "" if it is not known.
func allowedValues(kind string) string {
	switch {
	case kind == "bool":
		return "true or false"
	case kind == "duration":
		return "a time, such as 30, 30s or 5m"
	case strings.HasPrefix(kind, "int") || strings.HasPrefix(kind, "uint"):
		return "a whole number"
	case strings.HasPrefix(kind, "float"):
		return "a number"
	}
	return ""
}

// duration is the value of a flag: a number of seconds, or a time such as 30s or 5m.
type duration time.Duration

// DurationFlag adds a flag for a time.
func DurationFlag(f *pflag.FlagSet, at *time.Duration, name string, fallback time.Duration, about string) {
	*at = fallback
	f.Var((*duration)(at), name, about)
}

func (d *duration) Set(text string) error {
	if n, err := strconv.ParseFloat(text, 64); err == nil && n >= 0 && n < 1e9 {
		*d = duration(n * float64(time.Second))
		return nil
	}
	parsed, err := clock.ParseDuration(text)
	*d = duration(parsed)
	return err
}

func (d *duration) String() string {
	if *d == 0 {
		return ""
	}
	return time.Duration(*d).String()
}

func (*duration) Type() string { return "duration" }

// Enum is the value of a flag that is one of some words.
type Enum struct {
	at     *string
	Values []string
}

// EnumFlag adds a flag whose value is one of some words.
func EnumFlag(f *pflag.FlagSet, at *string, name, fallback, about string, values ...string) {
	*at = fallback
	f.Var(&Enum{at, values}, name, about)
}

func (c *Enum) Set(text string) error {
	if !slices.Contains(c.Values, text) {
		return errors.New("unknown value") // which flagError replaces
	}
	*c.at = text
	return nil
}

// OrList joins words, of which there is at least one, with commas and "or".
func OrList(words []string) string {
	list := words[len(words)-1]
	if len(words) > 1 {
		list = strings.Join(words[:len(words)-1], ", ") + " or " + list
	}
	return list
}

// allowed lists the words, and suggests one that is similar to text.
func (c *Enum) allowed(text string) string {
	list := OrList(c.Values)
	if near := fault.Nearest(text, c.Values, 1); near != nil && len(c.Values) > 1 {
		list += "; did you mean " + near[0] + "?"
	}
	return list
}

func (c *Enum) String() string {
	if c.at == nil { // the zero value, which pflag compares defaults with
		return ""
	}
	return *c.at
}

func (*Enum) Type() string { return "string" }

// argumentsText describes an error of the number of arguments of c, which check has found.
func argumentsText(c *cobra.Command, args []string, check cobra.PositionalArgs, err error) string {
	_, want, _ := strings.Cut(c.Use, " ")
	if c.HasSubCommands() || c.Name() == "help" {
		return err.Error()
	}
	if want == "" {
		return fmt.Sprintf("%s takes no arguments, not %.60q", c.CommandPath(), args[0])
	}
	for more := 1; more <= 2; more++ {
		if check(c, append(slices.Clone(args), make([]string, more)...)) == nil {
			return fmt.Sprintf("an argument is missing: %s %s", c.CommandPath(), want)
		}
	}
	return fmt.Sprintf("too many arguments: %s %s", c.CommandPath(), want)
}

// CommandsOnly rejects arguments of a command that only has subcommands.
func CommandsOnly(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return UnknownCommand(cmd, args[0])
	}
	return nil
}

// CheckUsage converts errors about arguments to usage errors, in c and all its
// subcommands.
func CheckUsage(c *cobra.Command) {
	if check := c.Args; check != nil {
		c.Args = func(cmd *cobra.Command, args []string) error {
			err := check(cmd, args)
			switch {
			case err == nil:
				return nil
			case strings.HasSuffix(err.Error(), "?"): // it has a suggestion
				return usage{err}
			}
			return usage{fmt.Errorf("%s; see %s --help", argumentsText(cmd, args, check, err), cmd.CommandPath())}
		}
	}
	for _, sub := range c.Commands() {
		CheckUsage(sub)
	}
}
