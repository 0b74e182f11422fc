package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/sandpiper-mcp/sandpiper/internal/cli"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect/encoded"
)

func piiCommand(env *cli.Env) *cobra.Command {
	var jsonl bool
	scan := &cobra.Command{
		Use: "scan FILE...", Short: "Find personal data and secrets in files",
		Long: `Scan reads each FILE, or standard input for -, and prints one line per finding: its
position, its type and the confidence of the rule, from 0 to 1. It never prints the
value. Positions are byte offsets in the UTF-8 line; the end of a finding that
spans lines, such as a private key, is beyond the end of its first line. A name that only
the heading of its column in a table shows to be one is found by sanitize, not by scan.

With --jsonl every line of a FILE is a JSON object with "id" and "text"; the output
is one line per object, with the positions in its text.`,
		Example: "  sandpiper pii scan customers.csv\n  sandpiper pii scan --json export.json | head\n  sandpiper pii scan --jsonl " +
			"rows.jsonl",
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runPIIScan(cmd.Context(), env, args, jsonl)
		},
	}
	scan.Flags().BoolVar(&jsonl, "jsonl", false, `read lines of {"id", "text"} and print one line for each`)
	return cli.Group("pii", "Find, replace and restore personal data and secrets",
		append(append(vaultCommands(env), exceptionCommands(env)...), scan, explainCommand(env),
			cli.OfTenant(env, &cobra.Command{
				Use: "sanitize [TEXT|-]", Short: "Replace personal data and secrets by tokens",
				Long: `Sanitize prints TEXT, or standard input, with tokens such as [EMAIL_…] in place of the
findings of scan, of names in columns of tables and of values in the vault. Models receive the same tokens; the
vault stores the values.`,
				Example: "  sandpiper pii sanitize \"call Ada at 212-555-0123\"\n  sandpiper pii sanitize < notes.txt > notes.clean.txt",
				Args:    cobra.MaximumNArgs(1),
				RunE:    func(cmd *cobra.Command, args []string) error { return runPIISanitize(cmd.Context(), env, args) },
			}),
			cli.OfTenant(env, &cobra.Command{
				Use: "restore [TEXT|-]", Short: "Replace tokens by their values",
				Long: `Restore prints TEXT, or standard input, with the values of the tokens that are in the
vault. Each use is recorded in the audit log.`,
				Example: "  sandpiper pii restore \"[EMAIL_k7q2m9x4]\"\n  sandpiper pii restore < answer.txt",
				Args:    cobra.MaximumNArgs(1),
				RunE:    func(cmd *cobra.Command, args []string) error { return runPIIRestore(cmd.Context(), env, args) },
			}),
		)...)
}

func runPIIScan(ctx context.Context, env *cli.Env, files []string, jsonl bool) error {
	cfg, err := cli.LoadConfig(env, nil)
	if err != nil {
		return err
	}
	s, err := detect.New(cfg.PII.Scan)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(env.Stdout)
	for _, name := range files {
		err = errors.Join(scanFile(ctx, env, out, s, name, jsonl), out.Flush())
		if err != nil {
			return err
		}
	}
	return nil
}

func scanFile(ctx context.Context, env *cli.Env, out io.Writer, s *detect.Scanner, name string, jsonl bool) error {
	in := env.Stdin
	if name != "-" {
		f, err := cli.OpenInput(name)
		if err != nil {
			return err
		}
		defer f.Close()
		in = f
	}
	in = decodedInput(in)
	if jsonl {
		return scanRecords(ctx, in, out, s, name)
	}
	p := findingPrinter{out: out, file: name, json: env.JSON, line: 1}
	return p.scan(ctx, in, s)
}

// decodedInput returns text in UTF-8 of an input whose byte order mark names UTF-16 or UTF-32.
func decodedInput(in io.Reader) io.Reader {
	b := bufio.NewReader(in)
	head, _ := b.Peek(encoded.MaxMark) // an error is returned by the next read
	if u, ok := encoded.UnicodeOf(head); ok {
		return u.NewDecoder().Reader(b)
	}
	return b
}

// findingJSON is a finding in JSON.
type findingJSON struct {
	File  string      `json:"file,omitempty"`
	Line  int         `json:"line,omitempty"`
	Start int         `json:"start"`
	End   int         `json:"end"`
	Type  detect.Type `json:"type"`
	Score float64     `json:"score"`
}

// findingPrinter prints findings with the number of their first line.
type findingPrinter struct {
	out  io.Writer
	file string
	json bool
	line int // number of the current line
	past int // bytes of the current line that were read
	read int // bytes of the scanned text that were read

	letters *escapedLetters // nil unless the text is JSON
}

// scan reads in to its end, without keeping the whole text in memory.
func (t *findingPrinter) scan(ctx context.Context, in io.Reader, s *detect.Scanner) error {
	stream, buf := s.Stream(), make([]byte, 64<<10)
	text := bufio.NewReaderSize(in, len(buf))
	if beginsAsJSON(text) {
		t.letters = &escapedLetters{}
	}
	for ctx.Err() == nil {
		n, err := text.Read(buf)
		piece := string(buf[:n])
		if t.letters != nil {
			piece = t.letters.decode(piece, errors.Is(err, io.EOF))
		}
		if werr := t.printAll(stream.Write(piece)); werr != nil {
			return werr
		}
		if errors.Is(err, io.EOF) {
			return t.printAll(stream.Close())
		}
		if err != nil {
			return err
		}
	}
	return context.Cause(ctx)
}

func (t *findingPrinter) printAll(text string, found []detect.Finding) error {
	end := 0
	for _, f := range found {
		t.advance(text[end:f.Start])
		end = f.Start
		if err := t.print(f); err != nil {
			return err
		}
	}
	t.advance(text[end:])
	return nil
}

// advance counts the lines and bytes of text.
func (t *findingPrinter) advance(text string) {
	t.read += len(text)
	t.line += strings.Count(text, "\n")
	if i := strings.LastIndexByte(text, '\n'); i >= 0 {
		t.past, text = 0, text[i+1:]
	}
	t.past += t.sourceBytes(t.read-len(text), t.read)
}

// sourceBytes returns the number of bytes in the source of the text from start to end.
func (t *findingPrinter) sourceBytes(start, end int) int {
	n := end - start
	if t.letters != nil {
		n += t.letters.longer(start, end)
	}
	return n
}

func (t *findingPrinter) print(f detect.Finding) error {
	length := t.sourceBytes(t.read, t.read+f.End-f.Start)
	j := findingJSON{
		File:  t.file,
		Line:  t.line,
		Start: t.past,
		End:   t.past + length,
		Type:  f.Type,
		Score: f.Score,
	}
	if !t.json {
		_, err := fmt.Fprintf(t.out, "%s:%d:%d-%d %s %.2f\n", cli.VisibleName(j.File), j.Line, j.Start, j.End, j.Type, j.Score)
		return err
	}
	b, err := cli.EncodeJSON(j)
	if err == nil {
		_, err = t.out.Write(b)
	}
	return err
}

// maxRecord is the maximum length of a line of --jsonl, which is kept in memory.
const maxRecord = 64 << 20

// scanRecords prints the findings of each line of in, an object with an id and a text.
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
			return fault.Wrap(fault.Invalid, err, "line %d of %.200q is not a JSON object with an id and a text", n, name).
				WithHint(`with --jsonl each line must be {"id": "1", "text": "…"}; omit --jsonl to scan plain text`)
		}
	}
	if errors.Is(lines.Err(), bufio.ErrTooLong) {
		return fault.New(fault.Invalid, "line %d of %.200q is longer than %d bytes", n+1, name, maxRecord).
			WithHint("scan it without --jsonl")
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
		Findings []findingJSON   `json:"findings"`
	}{r.ID, []findingJSON{}}
	for _, f := range s.Scan(*r.Text) {
		answer.Findings = append(answer.Findings, findingJSON{Start: f.Start, End: f.End, Type: f.Type, Score: f.Score})
	}
	b, err := cli.EncodeJSON(answer)
	if err == nil {
		_, err = out.Write(b)
	}
	return err
}
