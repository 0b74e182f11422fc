package form

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/confine"
)

// processName is the name under which the program starts again as the process that parses.
const processName = "sandpiper-form"

func init() { confine.Main(processName, serve) }

// MaxDocument is the limit on the size of a document in bytes.
const MaxDocument = 8 << 20

// maxAnswer is the limit on an answer in bytes; a worker takes no more.
const maxAnswer = 15 << 20

// serve answers one request: a line of JSON, followed by the document.
func serve(in []byte) []byte {
	line, raw, _ := bytes.Cut(in, []byte("\n"))
	var r request
	var a answer
	if err := json.Unmarshal(line, &r); err != nil {
		a.Error = &Problem{Problem: broken, Message: "the request cannot be read"}
	} else {
		a = handle(r, raw)
	}
	out, err := json.Marshal(a)
	if err != nil {
		out, _ = json.Marshal(answer{Error: &Problem{Problem: broken, Message: "the document has text that cannot be shown"}})
	}
	return out
}

// Config of a Parser.
type Config struct {
	Processes int            // concurrent processes; 0 means 2
	Limits    confine.Limits // of each; zero fields take their defaults
	Log       *slog.Logger   // nil discards
}

// Parser reads and fills documents in confined processes.
type Parser struct {
	cfg   Config
	slots chan struct{}
}

// New returns a Parser.
func New(cfg Config) *Parser {
	if cfg.Limits.OutputBytes == 0 {
		cfg.Limits.OutputBytes = maxAnswer
	}
	if cfg.Processes == 0 {
		cfg.Processes = 2
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Parser{cfg: cfg, slots: make(chan struct{}, cfg.Processes)}
}

// Process sends a request, a JSON object, and a document to a confined process, and returns its
// answer, which is a JSON value that depends on the document and is as untrusted. It waits until
// a process may start.
func (p *Parser) Process(ctx context.Context, request json.RawMessage, document []byte) (json.RawMessage, error) {
	if len(document) > MaxDocument {
		return problem(tooLarge, fmt.Sprintf("the document has %d bytes; at most %d are supported", len(document), MaxDocument))
	}
	var line bytes.Buffer
	if err := json.Compact(&line, request); err != nil {
		return nil, fault.Wrap(fault.Invalid, err, "the request about a form is not JSON")
	}
	select {
	case p.slots <- struct{}{}:
		defer func() { <-p.slots }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	line.WriteByte('\n')
	out, err := confine.Run(ctx, processName, p.cfg.Limits, append(line.Bytes(), document...))
	if f, ok := errors.AsType[*confine.Failure](err); ok {
		p.cfg.Log.Warn("a document could not be processed", "reason", f.Reason, "detail", f.Detail)
		return problem(broken, failureMessages[f.Reason])
	}
	if err != nil {
		if fault.KindOf(err) != fault.Internal || ctx.Err() != nil {
			return nil, err
		}
		return nil, fault.Wrap(fault.Unavailable, err, "the process that reads documents could not be started").WithHint("see the log of Sandpiper, and run sandpiper doctor")
	}
	if !json.Valid(out) {
		return problem(broken, failureMessages[confine.Crashed])
	}
	return out, nil
}

var failureMessages = map[confine.Reason]string{
	confine.OutOfTime:   "the document takes too much time to process; it is damaged or hostile",
	confine.OutOfMemory: "the document takes too much memory to process; it is damaged, hostile, or too large",
	confine.TooLong:     "the filled document is too large",
	confine.Crashed:     "the document cannot be processed: it is malformed",
}

func problem(name, message string) (json.RawMessage, error) {
	return json.Marshal(answer{Error: &Problem{Problem: name, Message: message}})
}
