package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect"
)

func (a *app) piiCommand() *cobra.Command {
	var jsonl bool
	scan := &cobra.Command{
		Use: "scan FILE...", Short: "Say where files have personal data and secrets",
		Long: `Scan reads each FILE, or standard input for -, and prints one line for each
finding: where it is, its type and how sure the rule is, from 0 to 1. It never
prints what it found. Places are bytes of UTF-8 in the line; what goes on in the
next lines, as private keys do, ends behind the end of its line.

With --jsonl every line of a FILE is a JSON object with "id" and "text"; the
answer is one line for each, with the places in its text.`,
		Example: "  sandpiper pii scan customers.csv\n  sandpiper pii scan --json export.json | head\n  sandpiper pii scan --jsonl rows.jsonl",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.runPIIScan(cmd.Context(), args, jsonl)
		},
	}
	scan.Flags().BoolVar(&jsonl, "jsonl", false, `read lines of {"id", "text"} and answer a line for each`)
	return group("pii", "Find, replace and restore personal data and secrets", append(a.vaultCommands(), scan,
		a.ofTenant(&cobra.Command{
			Use: "sanitize [TEXT|-]", Short: "Replace personal data and secrets by tokens",
			Long: `Sanitize prints TEXT, or standard input, with tokens such as [EMAIL_…] in place of
what scan would find and of what the vault knows. The tokens are those that models
are shown; what they stand for is kept in the vault.`,
			Example: "  sandpiper pii sanitize \"call Ada at 212-555-0123\"\n  sandpiper pii sanitize < notes.txt > notes.clean.txt",
			Args:    cobra.MaximumNArgs(1),
			RunE:    func(cmd *cobra.Command, args []string) error { return a.runPIISanitize(cmd.Context(), args) },
		}),
		a.ofTenant(&cobra.Command{
			Use: "restore [TEXT|-]", Short: "Show what tokens stand for",
			Long: `Restore prints TEXT, or standard input, with values in place of the tokens that
the vault knows. That it did so is recorded.`,
			Example: "  sandpiper pii restore \"[EMAIL_k7q2m9x4d3w8n5rt]\"\n  sandpiper pii restore < answer.txt",
			Args:    cobra.MaximumNArgs(1),
			RunE:    func(cmd *cobra.Command, args []string) error { return a.runPIIRestore(cmd.Context(), args) },
		}),
	)...)
}

func (a *app) runPIIScan(ctx context.Context, files []string, jsonl bool) error {
	cfg, err := a.load(nil)
	if err != nil {
		return err
	}
	s, err := detect.New(cfg.PII.Scan)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(a.stdout)
	for _, name := range files {
		err = errors.Join(a.scanFile(ctx, out, s, name, jsonl), out.Flush())
		if err != nil {
			return err
		}
	}
	return nil
}

func (a *app) scanFile(ctx context.Context, out io.Writer, s *detect.Scanner, name string, jsonl bool) error {
	in := a.stdin
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		defer f.Close()
		in = f
	}
	if jsonl {
		return scanRecords(ctx, in, out, s, name)
	}
	t := tellFindings{out: out, file: name, json: a.json, line: 1}
	return t.scan(ctx, in, s)
}

// foundJSON is a finding as it is printed.
type foundJSON struct {
	File  string      `json:"file,omitempty"`
	Line  int         `json:"line,omitempty"`
	Start int         `json:"start"`
	End   int         `json:"end"`
	Type  detect.Type `json:"type"`
	Score float64     `json:"score"`
}

// tellFindings prints findings with the lines that they begin in.
type tellFindings struct {
	out  io.Writer
	file string
	json bool
	line int // of what comes next
	past int // bytes of that line that came already
}

// scan reads in to its end. The text is never in memory as a whole.
func (t *tellFindings) scan(ctx context.Context, in io.Reader, s *detect.Scanner) error {
	stream, buf := s.Stream(), make([]byte, 64<<10)
	for ctx.Err() == nil {
		n, err := in.Read(buf)
		if werr := t.tell(stream.Write(string(buf[:n]))); werr != nil {
			return werr
		}
		if errors.Is(err, io.EOF) {
			return t.tell(stream.Close())
		}
		if err != nil {
			return err
		}
	}
	return context.Cause(ctx)
}

func (t *tellFindings) tell(text string, found []detect.Finding) error {
	at := 0
	for _, f := range found {
		t.pass(text[at:f.Start])
		at = f.Start
		if err := t.print(f); err != nil {
			return err
		}
	}
	t.pass(text[at:])
	return nil
}

// pass counts the lines of text.
func (t *tellFindings) pass(text string) {
	t.line += strings.Count(text, "\n")
	if i := strings.LastIndexByte(text, '\n'); i >= 0 {
		t.past, text = 0, text[i+1:]
	}
	t.past += len(text)
}

func (t *tellFindings) print(f detect.Finding) error {
	j := foundJSON{File: t.file, Line: t.line, Start: t.past, End: t.past + f.End - f.Start, Type: f.Type, Score: f.Score}
	if !t.json {
		_, err := fmt.Fprintf(t.out, "%s:%d:%d-%d %s %.2f\n", visibleName(j.File), j.Line, j.Start, j.End, j.Type, j.Score)
		return err
	}
	b, err := encode(j)
	if err == nil {
		_, err = t.out.Write(b)
	}
	return err
}

// maxRecord bounds a line of --jsonl: it is held in memory.
const maxRecord = 64 << 20

// scanRecords answers each line of in that has an id and a text.
func scanRecords(ctx context.Context, in io.Reader, out io.Writer, s *detect.Scanner, name string) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxRecord)
	n := 0
	for lines.Scan() && ctx.Err() == nil {
		n++
		if strings.TrimSpace(lines.Text()) == "" {
			continue
		}
		if err := scanRecord(lines.Bytes(), out, s); err != nil {
			return fault.Wrap(fault.Invalid, err, "line %d of %.200q is no JSON object with an id and a text", n, name).
				WithHint(`with --jsonl a line is {"id": "1", "text": "…"}; without it a file is read as it is`)
		}
	}
	if errors.Is(lines.Err(), bufio.ErrTooLong) {
		return fault.New(fault.Invalid, "line %d of %.200q is longer than %d bytes", n+1, name, maxRecord).WithHint("scan it without --jsonl")
	}
	return errors.Join(lines.Err(), context.Cause(ctx))
}

func scanRecord(line []byte, out io.Writer, s *detect.Scanner) error {
	var r struct {
		ID   json.RawMessage `json:"id"`
		Text *string         `json:"text"`
	}
	if err := json.Unmarshal(line, &r); err != nil {
		return err
	}
	if r.ID == nil || r.Text == nil || !utf8.Valid(line) {
		return errors.New("no id, no text, or not UTF-8")
	}
	answer := struct {
		ID       json.RawMessage `json:"id"`
		Findings []foundJSON     `json:"findings"`
	}{r.ID, []foundJSON{}}
	for _, f := range s.Scan(*r.Text) {
		answer.Findings = append(answer.Findings, foundJSON{Start: f.Start, End: f.End, Type: f.Type, Score: f.Score})
	}
	b, err := encode(answer)
	if err == nil {
		_, err = out.Write(b)
	}
	return err
}
