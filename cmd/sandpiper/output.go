package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

// printf prints text for people. Arguments from outside the program must be
// escaped with visible or visibleName.
func (env *app) printf(format string, args ...any) { fmt.Fprintf(env.stdout, format, args...) }

// printDone reports a completed step, unless the output is JSON.
func (env *app) printDone(format string, args ...any) {
	if !env.json {
		env.printf("%s %s\n", styleFor(env.stdout).green("✓"), visibleName(fmt.Sprintf(format, args...)))
	}
}

// warn prints a warning to stderr.
func (env *app) warn(sentence string) {
	fmt.Fprintln(env.stderr, styleFor(env.stderr).yellow("warning:"), visible(completed(env, sentence)))
}

// hint prints a next step after a warning.
func (env *app) hint(sentence string) {
	fmt.Fprintln(env.stderr, styleFor(env.stderr).yellow("hint:"), visible(completed(env, sentence)))
}

// printEmpty prints the reason and the next step for a list of n items, if it is empty. It prints to
// stderr, so that a program that reads the list gets no item. For JSON it prints nothing.
func (env *app) printEmpty(n int, format string, args ...any) {
	if n == 0 && !env.json {
		fmt.Fprintln(env.stderr, styleFor(env.stderr).dim(completed(env, visibleName(fmt.Sprintf(format, args...)))))
	}
}

// note prints a sentence or a state to stderr.
func (env *app) note(sentence string) {
	fmt.Fprintln(env.stderr, visible(completed(env, sentence)))
}

// writeJSON writes v as one line.
func (env *app) writeJSON(v any) error {
	b, err := encode(v)
	if err != nil {
		return err
	}
	_, err = env.stdout.Write(b)
	return err
}

// writeList writes a list: an object with the items under key, or with --json-lines a line for each.
func writeList[T any](env *app, key string, all []T) error {
	if !env.jsonLines {
		return env.writeJSON(map[string]any{"count": len(all), key: all})
	}
	for _, one := range all {
		if err := env.writeJSON(one); err != nil {
			return err
		}
	}
	return nil
}

// encode returns v as a line of JSON without escapes for HTML.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return b.Bytes(), err
}

// errorText returns the message and the hint of an error in one line.
func errorText(err error) string {
	if hint := fault.Hint(err); hint != "" {
		return fault.Message(err) + "; " + hint
	}
	return fault.Message(err)
}

// toolOrCommand matches a tool followed by the command that does the same.
var toolOrCommand = regexp.MustCompile("[a-z]+(?:_[a-z]+)+, or (`sandpiper [^`]+`),")

var definitionCall = regexp.MustCompile(`get_tool_definition\("([^"]*)"\)`)

// withFlagNames replaces the parameters of execute_code in a message by the names
// of the flags, other tools by commands, and the operator by the person at the command line.
func withFlagNames(message string) string {
	message = toolOrCommand.ReplaceAllString(message, "$1")
	message = definitionCall.ReplaceAllString(message, "`sandpiper tools get $1`")
	return strings.NewReplacer("ask the operator to ", "", "the operator can ", "you can ", "the operator raises", "you raise", "the operator allows", "you allow",
		"an operator accepts", "you accept", "default is the operator's", "default is",
		"search_tools(query)", "`sandpiper tools search`", "search_tools", "`sandpiper tools search`", "get_tool_definition", "`sandpiper tools get`",
		"list_servers", "`sandpiper servers list`", "read_workspace_file", "`sandpiper files cat`", "list_workspace_files", "`sandpiper files ls`", "list_skills", "`sandpiper skills list`", "with delete_file", "with `sandpiper files rm`",
		"resume_execution", "`sandpiper executions resume`",
		"execute_code and dry_run", "`sandpiper exec --dry-run`", "sandbox.memory_mb", "sandbox.memory_mb", "max_memory_mb", "max_memory_mb", "timeout_seconds", "--timeout", "memory_mb", "--memory", "context_vars", "--context", "session_id", "--session", "dry_run", "--dry-run").Replace(message)
}

// fit pads or cuts text to a width.
func fit(text string, width int) string {
	n := utf8.RuneCountInString(text)
	if n > width {
		return string([]rune(text)[:width-1]) + "…"
	}
	return text + strings.Repeat(" ", width-n)
}

// completed completes the commands in a text, so that they work when they are pasted: with the
// configuration file and the tenant of this command. Its shell has the environment.
func completed(env *app, text string) string {
	return commandsOf(env).Complete(text)
}

func commandsOf(env *app) fault.Commands {
	c := fault.Commands{Config: absoluteFile(env.config)}
	if env.tenant != tenant.Local.String() {
		c.Tenant = env.tenant
	}
	return c
}

// asPasted is completed for a text that has no backquotes when it is printed.
func asPasted(env *app, text string) string { return strings.ReplaceAll(completed(env, text), "`", "") }

// absoluteFile returns the path of a configuration file for another directory. "" remains.
func absoluteFile(path string) string {
	if absolute, err := filepath.Abs(path); err == nil && path != "" && path[0] != '~' {
		return absolute
	}
	return path
}

// count returns a number with a noun in the singular or plural.
func count[N int | int64](n N, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
