package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

// Printf prints text for people. Arguments from outside the program must be
// escaped with visible or visibleName.
func (env *Env) Printf(format string, args ...any) { fmt.Fprintf(env.Stdout, format, args...) }

// PrintDone reports a completed step, unless the output is JSON.
func (env *Env) PrintDone(format string, args ...any) {
	if !env.JSON {
		env.Printf("%s %s\n", StyleFor(env.Stdout).Green("✓"), VisibleName(fmt.Sprintf(format, args...)))
	}
}

// Warn prints a warning to stderr.
func (env *Env) Warn(sentence string) {
	fmt.Fprintln(env.Stderr, StyleFor(env.Stderr).Yellow("warning:"), Visible(Completed(env, sentence)))
}

// Hint prints a next step after a warning.
func (env *Env) Hint(sentence string) {
	fmt.Fprintln(env.Stderr, StyleFor(env.Stderr).Yellow("hint:"), Visible(Completed(env, sentence)))
}

// PrintEmpty prints the reason and the next step for a list of n items, if it is empty. It prints to
// stderr, so that a program that reads the list gets no item. For JSON it prints nothing.
func (env *Env) PrintEmpty(n int, format string, args ...any) {
	if n == 0 && !env.JSON {
		fmt.Fprintln(env.Stderr, StyleFor(env.Stderr).Dim(Completed(env, VisibleName(fmt.Sprintf(format, args...)))))
	}
}

// Note prints a sentence or a state to stderr.
func (env *Env) Note(sentence string) {
	fmt.Fprintln(env.Stderr, Visible(Completed(env, sentence)))
}

// WriteJSON writes v as one line.
func (env *Env) WriteJSON(v any) error {
	b, err := EncodeJSON(v)
	if err != nil {
		return err
	}
	_, err = env.Stdout.Write(b)
	return err
}

// WriteList writes a list: an object with the items under key, or with --json-lines a line for each.
func WriteList[T any](env *Env, key string, all []T) error {
	if !env.JSONLines {
		return env.WriteJSON(map[string]any{"count": len(all), key: all})
	}
	for _, one := range all {
		if err := env.WriteJSON(one); err != nil {
			return err
		}
	}
	return nil
}

// EncodeJSON returns v as a line of JSON without escapes for HTML.
func EncodeJSON(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return b.Bytes(), err
}

// toolOrCommand matches a tool followed by the command that does the same.
var toolOrCommand = regexp.MustCompile("[a-z]+(?:_[a-z]+)+, or (`sandpiper [^`]+`),")

var definitionCall = regexp.MustCompile(`get_tool_definition\("([^"]*)"\)`)

// WithFlagNames replaces the parameters of execute_code in a message by the names
// of the flags, other tools by commands, and the operator by the person at the command line.
func WithFlagNames(message string) string {
	message = toolOrCommand.ReplaceAllString(message, "$1")
	message = definitionCall.ReplaceAllString(message, "`sandpiper tools get $1`")
	return strings.NewReplacer("ask the operator to ", "", "the operator can ", "you can ", "the operator raises", "you raise",
		"the operator allows", "you allow",
		"an operator accepts", "you accept", "default is the operator's", "default is",
		"search_tools(query)", "`sandpiper tools search`", "search_tools", "`sandpiper tools search`", "get_tool_definition",
		"`sandpiper tools get`",
		"list_servers", "`sandpiper servers list`", "read_workspace_file", "`sandpiper files cat`", "list_workspace_files",
		"`sandpiper files ls`", "list_skills", "`sandpiper skills list`", "with delete_file", "with `sandpiper files rm`",
		"resume_execution", "`sandpiper executions resume`",
		"execute_code and dry_run", "`sandpiper exec --dry-run`", "sandbox.memory_mb", "sandbox.memory_mb", "max_memory_mb",
		"max_memory_mb", "timeout_seconds", "--timeout", "memory_mb", "--memory", "context_vars", "--context", "session_id", "--session",
		"dry_run", "--dry-run").Replace(message)
}

// Completed completes the commands in a text, so that they work when they are pasted: with the
// configuration file and the tenant of this command. Its shell has the environment.
func Completed(env *Env, text string) string {
	return CommandsOf(env).Complete(text)
}

// CommandsOf returns the configuration file and the tenant that a command of a message needs.
func CommandsOf(env *Env) fault.Commands {
	c := fault.Commands{Config: absoluteFile(env.ConfigFile)}
	if env.Tenant != tenant.Local.String() {
		c.Tenant = env.Tenant
	}
	return c
}

// AsPasted is completed for a text that has no backquotes when it is printed.
func AsPasted(env *Env, text string) string { return strings.ReplaceAll(Completed(env, text), "`", "") }

// absoluteFile returns the path of a configuration file for another directory. "" remains.
func absoluteFile(path string) string {
	if absolute, err := filepath.Abs(path); err == nil && path != "" && path[0] != '~' {
		return absolute
	}
	return path
}

// Count returns a number with a noun in the singular or plural.
func Count[N int | int64](n N, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
