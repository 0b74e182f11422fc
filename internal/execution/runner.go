package execution

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/audit"
	"github.com/sandpiper-mcp/sandpiper/internal/guardrail"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/admit"
	"github.com/sandpiper-mcp/sandpiper/internal/telemetry"
)

// Config of a Runner.
type Config struct {
	Backend sandbox.Backend // required
	Queue   *admit.Queue    // required
	Limits  Limits          // time and memory; zero fields take their defaults
	// Sandbox are the other limits of every execution. Zero means 128 processes,
	// 256 open files, 1 GiB a file, 600 s of CPU, 64 MiB of result, and no
	// watched disk. Its memory is set for each execution.
	Sandbox sandbox.Limits
	// Restricted makes all code pass the check of docs/restricted.md before it
	// runs, or be refused.
	Restricted    bool
	ReplyBytes    int                 // of the value, and of the output, in a reply; 0 means 16 KiB
	OutputBytes   int64               // output that ends an execution; 0 means 64 MiB
	Scratch       string              // directory for output on its way into a workspace; "" means the system's for temporary files
	OpenWait      time.Duration       // longest time to open a sandbox, which the first time may have to unpack Python; 0 means one minute
	ProgressEvery time.Duration       // shortest time between two Progress of one handle; 0 means 100 ms
	Tools         *Tools              // what code may call; nil means nothing
	Privacy       *redact.Rules       // what of private values code gets; nil means all, and no tokens
	Guard         *guardrail.Guard    // judges code before it runs; nil judges nothing
	Sessions      Sessions            // bounds of living interpreters; zero fields take their defaults
	RetainEnded   int                 // ended executions kept for Attach; 0 means 64, negative none
	RetainFor     time.Duration       // how long; 0 means one minute
	Audit         func(audit.Line)    // takes a line when an execution ended; nil means that there is no audit log
	Telemetry     *telemetry.Recorder // is told of executions; nil means nobody is
	Log           *slog.Logger        // nil discards
}

func (c Config) withDefaults() Config {
	c.Limits = c.Limits.WithDefaults()
	c.Sandbox.Processes = or(c.Sandbox.Processes, 128)
	c.Sandbox.OpenFiles = or(c.Sandbox.OpenFiles, 256)
	c.Sandbox.FileBytes = or(c.Sandbox.FileBytes, 1<<30)
	c.Sandbox.CPU = or(c.Sandbox.CPU, 600*time.Second)
	c.Sandbox.ResultBytes = or(c.Sandbox.ResultBytes, 64<<20)
	c.ReplyBytes = or(c.ReplyBytes, 16<<10)
	c.OutputBytes = or(c.OutputBytes, 64<<20)
	c.OpenWait = or(c.OpenWait, time.Minute)
	c.ProgressEvery = or(c.ProgressEvery, 100*time.Millisecond)
	c.RetainEnded = or(c.RetainEnded, 64)
	c.RetainFor = or(c.RetainFor, time.Minute)
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}

// Runner starts executions.
type Runner struct {
	cfg    Config
	none   *redact.Exit // that lets all pass
	book   *book
	living *interpreters
	stop   context.CancelCauseFunc // cancels what runs
	life   context.Context         // ended by stop
	busy   sync.WaitGroup          // executions

	large sync.Mutex // held by who has a large file in memory
}

// closeGrace is how long Close waits for executions that it cancelled.
const closeGrace = 10 * time.Second

// New returns a runner. The caller closes it before the backend.
func New(cfg Config) (*Runner, error) {
	if cfg.Backend == nil || cfg.Queue == nil {
		return nil, errors.New("execution: Config needs a Backend and a Queue")
	}
	cfg = cfg.withDefaults()
	off, err := redact.New(redact.Config{Mode: redact.Off})
	if err != nil {
		return nil, err
	}
	cfg.Privacy = cmp.Or(cfg.Privacy, off)
	r := &Runner{cfg: cfg, none: off.For(redact.Owner{}), book: newBook(cfg.RetainEnded, cfg.RetainFor), living: newInterpreters(cfg.Sessions, cfg.Log)}
	r.life, r.stop = context.WithCancelCause(context.Background())
	return r, nil
}

// Limits returns the time and memory that executions get and may ask for.
func (r *Runner) Limits() Limits { return r.cfg.Limits }

// Living returns how many sessions have a living interpreter.
func (r *Runner) LiveInterpreters() int { return r.living.count() }

// Restricted reports whether code has to pass a check before it runs.
func (r *Runner) Restricted() bool { return r.cfg.Restricted }

// Close admits no more executions, lets those that run end until ctx does,
// cancels the rest and waits for them. It is idempotent. The error says that a
// backend did not end its sandboxes in time.
func (r *Runner) Close(ctx context.Context) error {
	defer r.living.close()
	for _, x := range r.book.close() {
		x.cancel(errStopping)
	}
	ended := make(chan struct{})
	go func() {
		r.busy.Wait()
		close(ended)
	}()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		r.stop(errStopping)
	}
	select {
	case <-ended:
		return nil
	case <-time.After(closeGrace):
		return errors.New("execution: cancelled executions did not end")
	}
}
