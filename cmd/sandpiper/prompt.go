package main

import (
	"bufio"
	"context"
	"fmt"
	"strings"
)

// confirm asks a yes-or-no question on the terminal. An empty line answers with
// the default.
func (env *app) confirm(ctx context.Context, byDefault bool, format string, args ...any) bool {
	choice := "[y/N]"
	if byDefault {
		choice = "[Y/n]"
	}
	env.printf("%s %s ", visibleName(fmt.Sprintf(format, args...)), choice)
	line, answered := env.readLine(ctx)
	switch strings.ToLower(line) {
	case "y", "yes":
		return true
	case "":
		return byDefault && answered
	}
	return false
}

// input is a line read from the terminal.
type input struct {
	text string
	err  error
}

// readLine reads a line from the terminal. If an earlier call was cancelled, the
// line that it was reading is discarded first: it does not answer this question.
func (env *app) readLine(ctx context.Context) (string, bool) {
	if env.reading != nil {
		fmt.Fprint(env.stderr, "\nthe question above was answered elsewhere; press Enter, then answer this one: ")
		if _, ok := env.await(ctx); !ok {
			return "", false
		}
	}
	if env.lines == nil {
		env.lines = bufio.NewReader(env.stdin)
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
func (env *app) await(ctx context.Context) (string, bool) {
	select {
	case r := <-env.reading:
		env.reading = nil
		return strings.TrimSpace(r.text), r.err == nil
	case <-ctx.Done():
		return "", false
	}
}
