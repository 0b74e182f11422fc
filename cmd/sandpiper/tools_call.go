package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sandpiper-mcp/sandpiper/internal/cli"
	"github.com/sandpiper-mcp/sandpiper/internal/cli/result"
	"github.com/sandpiper-mcp/sandpiper/internal/daemon"
	"github.com/sandpiper-mcp/sandpiper/internal/execution"
	"github.com/sandpiper-mcp/sandpiper/internal/execution/reply"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog"
)

func toolsCallCommand(env *cli.Env) *cobra.Command {
	var args string
	c := &cobra.Command{
		Use: "call SERVER.TOOL [--args JSON]", Short: "Call a tool",
		Long: `Call calls one tool by code in the sandbox, so that policy, approvals, privacy, budgets
and the audit log apply as to any code. It prints the result and exits with 3 if the
tool failed or the call was refused.`,
		Example: `  sandpiper tools call github.list_issues --args '{"owner": "golang", "repo": "go"}'
  sandpiper tools call crm.find --args @query.json --json
  echo '{"a": 1, "b": 2}' | sandpiper tools call calculator.add --args -`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, names []string) error {
			return runToolsCall(cmd.Context(), env, names[0], args)
		},
	}
	c.Flags().StringVar(&args, "args", "{}", "arguments as a `JSON` object, @FILE, or - for standard input")
	return cli.OfTenant(env, c)
}

// callCode calls the tool that its variables name. They cannot collide with the arguments.
const callCode = "result = call_tool(server, tool, **arguments)"

func runToolsCall(ctx context.Context, env *cli.Env, name, args string) error {
	arguments, err := toolArguments(env, args)
	if err != nil {
		return err
	}
	if server, tool, _ := strings.Cut(name, "."); server == "" || tool == "" {
		return cli.Usagef("%q must be SERVER.TOOL, such as github.list_issues", name)
	}
	return cli.WithWarmHome(ctx, env, result.Printer(env), func(d *daemon.Daemon, home *home.Home) error {
		ref := splitTool(d.Servers.Catalog.Now(), name)
		vars, err := json.Marshal(map[string]any{"server": ref.Server, "tool": ref.Tool, "arguments": arguments})
		if err != nil {
			return err
		}
		r, err := result.Execute(ctx, env, d, home, execution.Request{Code: callCode, Vars: vars})
		if err != nil {
			return err
		}
		r.Traceback = "" // of callCode
		if !env.JSON {
			explainCall(&r, d.Servers.Catalog.For(catalog.Viewer{Tenant: home.ID()}), ref)
		}
		return result.Print(ctx, env, r)
	})
}

// explainCall words the error of a failed call for a person instead of code, and adds the names
// that exist if none is similar to the one given.
func explainCall(r *reply.Result, now *catalog.Snapshot, ref tool.Ref) {
	if r.ErrorType != "ToolError" {
		return
	}
	r.ErrorType = ""
	ref = now.Resolve(ref)
	if text, ok := strings.CutSuffix(r.Error, fmt.Sprintf(": get_tool_definition(%q) returns its input schema", ref)); ok {
		r.Error, r.Hint = text, fmt.Sprintf("`sandpiper tools get %s` prints its input schema", ref)
		return
	}
	if _, ok := now.Find(ref); ok {
		if !strings.Contains(r.Error, ref.String()) {
			r.Error = ref.String() + ": " + r.Error // which the server wrote
		}
		return
	}
	if strings.Contains(r.Error, "did you mean") {
		return
	}
	var names []string
	what := "the tools of " + ref.Server
	if _, ok := now.Server(ref.Server); !ok {
		what = "the servers"
		for _, s := range now.Servers {
			names = append(names, s.Name)
		}
	}
	for _, t := range now.Of(ref.Server) {
		names = append(names, t.Ref.Tool)
	}
	if len(names) > 0 {
		r.Hint = what + " are " + firstNames(names, 10)
	}
}

// firstNames lists at most some names, and the number of others.
func firstNames(names []string, most int) string {
	if more := len(names) - most; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), more)
	}
	return strings.Join(names, ", ")
}

// splitTool splits SERVER.TOOL. The name of a known server may contain dots.
func splitTool(now *catalog.Snapshot, name string) (ref tool.Ref) {
	ref.Server, ref.Tool, _ = strings.Cut(name, ".")
	for _, s := range now.Servers {
		if of, ok := strings.CutPrefix(name, s.Name+"."); ok && len(s.Name) > len(ref.Server) {
			ref = tool.Ref{Server: s.Name, Tool: of}
		}
	}
	return ref
}

// maxArguments limits the arguments of a call in bytes.
const maxArguments = 4 << 20

// toolArguments reads the arguments of a call, a JSON object.
func toolArguments(env *cli.Env, given string) (json.RawMessage, error) {
	text, from := []byte(given), "--args"
	var err error
	switch path, isFile := strings.CutPrefix(given, "@"); {
	case given == "-":
		from = "standard input"
		text, err = io.ReadAll(io.LimitReader(env.Stdin, maxArguments+1))
	case isFile:
		from = path
		text, err = cli.ReadInput(path, maxArguments)
	}
	if err != nil {
		return nil, fmt.Errorf("read the arguments: %w", err)
	}
	text = bytes.TrimSpace(bytes.TrimPrefix(text, cli.ByteOrderMark))
	var object map[string]json.RawMessage
	switch err := json.Unmarshal(text, &object); {
	case len(text) > maxArguments:
		return nil, cli.Usagef("the arguments have more than %d bytes", maxArguments)
	case len(text) == 0:
		return nil, cli.Usagef("%s is empty; the arguments are a JSON object such as {\"name\": 1}", from)
	case err != nil || object == nil:
		if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
			return nil, cli.Usagef("%s is not JSON: %s at byte %d", from, syntax, syntax.Offset)
		}
		return nil, cli.Usagef("%s must be a JSON object such as {\"name\": 1}", from)
	}
	return text, nil
}
