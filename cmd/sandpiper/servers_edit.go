package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sandpiper-mcp/sandpiper/internal/cli"
	"github.com/sandpiper-mcp/sandpiper/internal/config"
	"github.com/sandpiper-mcp/sandpiper/internal/config/literal"
	"github.com/sandpiper-mcp/sandpiper/internal/daemon"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/lazyregexp"
)

// serverName matches the names that a person may give to a server.
var serverName = lazyregexp.New(`^[\pL\pN@][\pL\pN._/@-]{0,99}$`)

func serversAddCommand(env *cli.Env) *cobra.Command {
	var s config.Server
	var variables, headers []string
	var replace bool
	c := &cobra.Command{
		Use: "add NAME URL | NAME -- COMMAND [ARG...]", Short: "Add a server to the configuration",
		Long: `Add adds a server, which is started by its first use. Write secrets as references,
such as ${GITHUB_TOKEN}, ${file:PATH} or ${keyring:SERVICE/ACCOUNT}.`,
		Example: `  sandpiper servers add docs https://example.com/mcp --header 'Authorization: Bearer ${DOCS_TOKEN}'
  sandpiper servers add github --env 'GITHUB_TOKEN=${GITHUB_TOKEN}' -- npx -y @modelcontextprotocol/server-github`,
		Args: cobra.MinimumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if s.Env, err = pairs("--env", variables, "="); err != nil {
				return err
			}
			if s.Headers, err = pairs("--header", headers, ":"); err != nil {
				return err
			}
			if s.Name = args[0]; !serverName().MatchString(s.Name) {
				return cli.Usagef("the name of a server is %.60q; use up to 100 letters, digits, \".\", \"_\", \"-\", \"/\" and \"@\", "+
					"for example github", s.Name)
			}
			if err := setTarget(&s, args[1], args[2:]); err != nil {
				return err
			}
			return runServersAdd(cmd.Context(), env, s, replace)
		},
	}
	f := c.Flags()
	f.StringArrayVar(&variables, "env", nil, "a variable of the program: `NAME=VALUE`")
	f.StringArrayVar(&headers, "header", nil, "a header for the URL: `'NAME: VALUE'`")
	f.StringVar(&s.Category, "category", "", "`CATEGORY` of its tools")
	cli.EnumFlag(f, &s.Transport, "type", "", "`TRANSPORT`: stdio, http or sse", "stdio", "http", "sse")
	f.BoolVar(&s.Trusted, "trusted", false, "trust the server's annotations of its tools")
	f.BoolVar(&replace, "replace", false, "replace the entry of a server with this name")
	f.BoolVar(&s.Review, "review", false, "quarantine its tools until you accept them with sandpiper tools accept")
	return c
}

// schemeless matches an address without a scheme, such as localhost:3000/mcp.
var schemeless = lazyregexp.New(`^[\pL\pN-]+(\.[\pL\pN-]+)*(:[0-9]+(/|$)|\.\pL+/)`)

// setTarget sets the URL of a server, or its command and arguments.
func setTarget(s *config.Server, first string, rest []string) error {
	isURL := strings.HasPrefix(first, "https://") || strings.HasPrefix(first, "http://")
	switch _, err := os.Stat(first); {
	case isURL && len(rest) > 0:
		return cli.Usagef("%.60q is after the URL; a URL has no arguments", rest[0])
	case isURL:
		s.URL = first
	case len(rest) == 0 && strings.Contains(first, "://"):
		return cli.Usagef("the URL of a server is %.200q; it must begin with https:// or http://", first)
	case len(rest) == 0 && err != nil && schemeless().MatchString(first):
		return cli.Usagef("%.200q is neither a URL nor a program; write http://%[2]s or https://%[2]s", first, first)
	default:
		s.Command, s.Args = first, rest
	}
	return nil
}

// warnCommand warns that the program of an added server is not installed.
func warnCommand(env *cli.Env, s config.Server) {
	if s.Command == "" || s.Env["PATH"] != "" || strings.ContainsAny(s.Command, `/\$`) {
		return
	}
	if _, err := exec.LookPath(s.Command); err != nil {
		env.Warn(fmt.Sprintf("there is no program %s on PATH; %s cannot start without it", s.Command, s.Name))
	}
}

// pairs parses NAME=VALUE or NAME: VALUE.
func pairs(flag string, all []string, separator string) (map[string]string, error) {
	m := map[string]string{}
	for _, one := range all {
		name, value, ok := strings.Cut(one, separator)
		if name = strings.TrimSpace(name); !ok || name == "" {
			return nil, cli.Usagef("%s %q must be a name, %q and a value", flag, name, separator)
		}
		m[name] = strings.TrimSpace(value)
	}
	return m, nil
}

func runServersAdd(ctx context.Context, env *cli.Env, s config.Server, replace bool) error {
	err := editServers(ctx, env, "added "+s.Name, func(path string, text []byte) ([]byte, error) {
		if s.Dir = filepath.Dir(path); text == nil {
			text = []byte{}
		}
		features := daemon.Sections(env.Features)
		entries, err := config.EntriesIn(path, text, features...)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(entries, func(e config.Entry) bool { return e.Name == s.Name }) {
			if replace {
				return config.ReplaceServer(path, text, s, features...)
			}
			return nil, fault.New(fault.Invalid, "there is a server %q in %s already", s.Name, path).
				WithHint("`%s` replaces it; or choose another name", addCommand(s))
		}
		added, err := config.AddServers(path, text, []config.Server{s}, features...)
		if len(text) == 0 {
			added = append([]byte(config.SchemaLine), added...)
		}
		return added, err
	})
	if err == nil {
		warnSecrets(env, s)
		warnCommand(env, s)
	}
	return err
}

// addCommand returns the command that replaces the entry of a server by s, with references instead of secrets.
func addCommand(s config.Server) string {
	safe, _ := redactServer(s)
	s.Command, s.Args, s.Env, s.URL, s.Headers = safe.Command, safe.Args, safe.Env, safe.URL, safe.Headers
	words := []string{"sandpiper", "servers", "add", s.Name, "--replace"}
	for _, key := range slices.Sorted(maps.Keys(s.Env)) {
		words = append(words, "--env", key+"="+s.Env[key])
	}
	for _, key := range slices.Sorted(maps.Keys(s.Headers)) {
		words = append(words, "--header", key+": "+s.Headers[key])
	}
	if s.Category != "" {
		words = append(words, "--category", s.Category)
	}
	if s.Transport != "" {
		words = append(words, "--type", s.Transport)
	}
	if s.Trusted {
		words = append(words, "--trusted")
	}
	if s.Review {
		words = append(words, "--review")
	}
	if s.URL != "" {
		words = append(words, s.URL)
	} else {
		words = append(append(words, "--", s.Command), s.Args...)
	}
	for i, w := range words {
		words[i] = fault.ShellQuote(w)
	}
	return strings.Join(words, " ")
}

// redactServer returns a server with references in place of its secrets, and the names of the variables that
// these references need, sorted.
func redactServer(s config.Server) (literal.Server, []string) {
	one := []literal.Server{{
		Name:    s.Name,
		Command: s.Command,
		Args:    slices.Clone(s.Args),
		Env:     maps.Clone(s.Env),
		URL:     s.URL,
		Headers: maps.Clone(s.Headers),
	}}
	var names []string
	for _, v := range literal.Redact(os.LookupEnv, one) {
		if v.Reveal() != "" {
			names = append(names, v.Name)
		}
	}
	return one[0], names
}

// warnSecrets warns about literal secrets of an added server, and prints how to refer to them.
func warnSecrets(env *cli.Env, s config.Server) {
	got, variables := redactServer(s)
	if len(variables) == 0 {
		return
	}
	file, _, err := serversFile(env)
	if err != nil { // it was written, and is gone
		return
	}
	var written []string
	for _, name := range slices.Sorted(maps.Keys(s.Env)) {
		if got.Env[name] != s.Env[name] {
			written = append(written, fmt.Sprintf("--env '%s=%s'", name, got.Env[name]))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Headers)) {
		if got.Headers[name] != s.Headers[name] {
			written = append(written, fmt.Sprintf("--header '%s: %s'", name, got.Headers[name]))
		}
	}
	for i, arg := range append([]string{s.URL, s.Command}, s.Args...) {
		if with := append([]string{got.URL, got.Command}, got.Args...)[i]; with != arg {
			written = append(written, "'"+with+"'")
		}
	}
	env.Warn(fmt.Sprintf("%s now has what looks like a secret of %s in plain text", file, s.Name))
	env.Hint(fmt.Sprintf("set %s in %s instead, remove %[3]s, and add it again with %[4]s", strings.Join(variables, " and "),
		filepath.Join(filepath.Dir(file), ".env"), s.Name, strings.Join(written, " ")))
	env.Hint(fmt.Sprintf("or store it in the keyring, and write ${keyring:%s/%s}: %s", s.Name, variables[0],
		keyringCommand(runtime.GOOS, s.Name, variables[0])))
}

// keyringCommand returns the command that stores a secret in the keyring of a system, and asks for it.
func keyringCommand(system, service, account string) string {
	switch system {
	case "darwin":
		return fmt.Sprintf("security add-generic-password -s %s -a %s -w", service, account)
	case "windows":
		return fmt.Sprintf("cmdkey /generic:%s:%s /user:%[2]s /pass", service, account)
	}
	return fmt.Sprintf("secret-tool store --label=%s service %[1]s username %s", service, account)
}

func runServersRemove(ctx context.Context, env *cli.Env, name string) error {
	return editServers(ctx, env, "removed "+name, func(path string, text []byte) ([]byte, error) {
		return config.RemoveServer(path, text, name, daemon.Sections(env.Features)...)
	})
}

func runServersDisable(ctx context.Context, env *cli.Env, name string, off bool) error {
	return editServers(ctx, env, map[bool]string{true: "disabled ", false: "enabled "}[off]+name,
		func(path string, text []byte) ([]byte, error) {
			return config.SetDisabled(path, text, name, off, daemon.Sections(env.Features)...)
		})
}

// editServers changes the user's configuration file and makes running daemons reload it.
func editServers(ctx context.Context, env *cli.Env, done string, change func(path string, text []byte) ([]byte, error)) error {
	path, old, err := serversFile(env)
	if err != nil {
		return err
	}
	text, err := change(path, old)
	if err != nil {
		return err
	}
	if err := cli.ReplaceConfig(env, path, old, text); err != nil {
		return err
	}
	d, err := cli.OpenDaemon(env, cli.Options{Quiet: true})
	if err != nil {
		return fault.Wrap(fault.KindOf(err), err, "%s is written (%s), but the configuration has an error: %s", path, done,
			fault.Sentence(err))
	}
	defer cli.CloseDaemon(env, d)
	env.PrintDone("%s in %s", done, path)
	return requestReload(ctx, env, d, path)
}

// reloadWait limits the wait for the answers of daemons.
const reloadWait = 10 * time.Second

// requestReload makes running daemons reload, and prints their answers.
func requestReload(ctx context.Context, env *cli.Env, d *daemon.Daemon, path string) error {
	waiting, cancel := context.WithTimeout(ctx, reloadWait)
	defer cancel()
	all, request, err := daemon.RequestReload(waiting, d)
	if err != nil {
		return err
	}
	if env.JSON {
		return env.WriteJSON(map[string]any{"success": true, "file": path, "daemons": append([]daemon.Instance{}, all...)})
	}
	if len(all) == 0 {
		env.Printf("It applies at once to commands such as exec, and to sandpiper serve from its next start.\n")
	}
	for _, i := range all {
		switch {
		case i.Request != request:
			env.Warn(describeDaemon(i) + " has not answered; it may still reload")
		case i.Error != "":
			env.Warn(describeDaemon(i))
		case !slices.Contains(i.Files, path):
			env.Warn(describeDaemon(i) + otherFiles(i.Files, path))
		default:
			env.Printf("%s\n", cli.VisibleName(describeDaemon(i)))
		}
	}
	return nil
}

// otherFiles describes the files of a daemon that was started without the file at path.
func otherFiles(files []string, path string) string {
	if len(files) == 0 {
		return " uses no configuration file; restart it with --config " + path
	}
	return fmt.Sprintf(" uses %s instead; restart it with --config %s, or repeat this command with --config and its file",
		strings.Join(files, ", "), path)
}
