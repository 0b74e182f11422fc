package cli

import (
	"bufio"
	"context"
	"fmt"
	"strings"
)

// Confirm asks a yes-or-no question on the terminal. An empty line answers with
// the default.
func (env *Env) Confirm(ctx context.Context, byDefault bool, format string, args ...any) bool {
	choice := "[y/N]"
	if byDefault {
		choice = "[Y/n]"
	}
	env.Printf("%s %s ", VisibleName(fmt.Sprintf(format, args...)), choice)
	line, answered := env.ReadLine(ctx)
	switch strings.ToLower(line) {
	case "y", "yes":
		return true
	case "":
		return byDefault && answered
	}
	return false
}

// ReadLine reads a line from the terminal. If an earlier call was cancelled, the
// Line that it was reading is discarded first: it does not answer this question.
func (env *Env) ReadLine(ctx context.Context) (string, bool) {
	if env.reading != nil {
		fmt.Fprint(env.Stderr, "\nthe question above was answered elsewhere; press Enter, then answer this one: ")
		if _, ok := env.await(ctx); !ok {
			return "", false
		}
	}
	if env.lines == nil {
		env.lines = bufio.NewReader(env.Stdin)
	}
	reading := make(chan input, 1)
	env.reading = reading
	go func() {
		text, err := env.lines.ReadString('\n')
		reading <- input{text, err}
	}()
	return env.await(ctx)
}

// await waits for the line that is being read. If ctx ends first, the reading
// goroutine continues until the process exits.
func (env *Env) await(ctx context.Context) (string, bool) {
	select {
	case r := <-env.reading:
		env.reading = nil
		return strings.TrimSpace(r.text), r.err == nil
	case <-ctx.Done():
		return "", false
	}
}
