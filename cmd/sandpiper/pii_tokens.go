package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/sandpiper-mcp/sandpiper/internal/cli"
	"github.com/sandpiper-mcp/sandpiper/internal/daemon"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/vault"
)

// maxText is the maximum length of a text, which is kept in memory.
const maxText = 64 << 20

// withGate calls use with the gate of the tenant.
func withGate(ctx context.Context, env *cli.Env, use func(*redact.Gate) error) error {
	return cli.WithDaemonHome(ctx, env, func(d *daemon.Daemon, home *home.Home) error {
		return use(d.Privacy.For(redact.Owner{Tenant: home.ID(), Vault: home.Vault}))
	})
}

// argumentOrStdin returns the argument of a command, or standard input.
func argumentOrStdin(env *cli.Env, args []string) (string, error) {
	if len(args) > 0 && args[0] != "-" {
		return args[0], nil
	}
	b, err := io.ReadAll(io.LimitReader(decodedInput(env.Stdin), maxText+1))
	switch {
	case err != nil:
		return "", err
	case len(b) > maxText:
		return "", fault.New(fault.Exhausted, "standard input has more than %d MB", maxText>>20).WithHint("split it")
	case !utf8.Valid(b):
		return "", fault.New(fault.Invalid, "standard input is not UTF-8")
	}
	return string(b), nil
}

func runPIISanitize(ctx context.Context, env *cli.Env, args []string) error {
	text, err := argumentOrStdin(env, args)
	if err != nil {
		return err
	}
	return withGate(ctx, env, func(e *redact.Gate) error {
		clean, tokens, err := e.Tokens().Sanitize(ctx, text)
		if err != nil {
			return err
		}
		if !env.JSON {
			return printText(env, clean)
		}
		types := []string{}
		for t := range tokens {
			types = append(types, string(vault.Token(t).Type()))
		}
		slices.Sort(types)
		return env.WriteJSON(map[string]any{"sanitized_text": clean, "pii_found": len(tokens), "pii_types": slices.Compact(types)})
	})
}

func runPIIRestore(ctx context.Context, env *cli.Env, args []string) error {
	text, err := argumentOrStdin(env, args)
	if err != nil {
		return err
	}
	return withGate(ctx, env, func(e *redact.Gate) error {
		if !e.CanReveal() {
			return fault.New(fault.Denied, "values cannot be restored: pii.restore or pii.mode does not allow it").
				WithHint("set pii.restore to auto or allow, and pii.mode to egress or strict")
		}
		restored, err := e.Restorer().Name(ctx, redact.ToPerson, text)
		if err != nil {
			return err
		}
		if env.JSON {
			return env.WriteJSON(map[string]any{"restored_text": restored})
		}
		return printText(env, restored)
	})
}

// printText prints a text. On a terminal, control characters are escaped.
func printText(env *cli.Env, text string) error {
	if cli.IsTerminal(env.Stdout) {
		text = cli.Visible(text)
	}
	if !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	_, err := fmt.Fprint(env.Stdout, text)
	return err
}
