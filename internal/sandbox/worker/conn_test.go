package worker_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/worker"
)

// echoHost is a host that collects output and answers every call with its arguments.
type echoHost struct {
	output  []string
	refuse  error
	calling func(ctx context.Context, method string)
}

func (n *echoHost) Output(p []byte) error {
	n.output = append(n.output, string(p))
	return n.refuse
}

func (n *echoHost) Call(ctx context.Context, method string, args []byte) ([]byte, error) {
	if n.calling != nil {
		n.calling(ctx, method)
	}
	return args, nil
}

// frame returns the bytes of a frame of execution 1.
func frame(kind worker.Kind, payload string) []byte {
	return encode(worker.Frame{Kind: kind, Number: 1, Payload: []byte(payload)})
}

// runFrames runs a program on a worker that discards its input and sends frames.
func runFrames(t *testing.T, h sandbox.Host, frames ...[]byte) sandbox.Outcome {
	t.Helper()
	ours, theirs := net.Pipe()
	c := worker.New(ours, nil, nil, worker.Limits{ResultBytes: 1000})
	defer c.Close()
	go func() {
		_, _ = io.Copy(io.Discard, theirs)
	}()
	go func() {
		defer theirs.Close()
		for _, p := range frames {
			if _, err := theirs.Write(p); err != nil {
				return
			}
		}
	}()
	o, err := c.Run(context.Background(), 1, sandbox.Program{Code: "hostile"}, h)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

const done = `{"status":"completed","result":1}`

func TestInvalidFramesCrashSandbox(t *testing.T) {
	header := func(size string, kind string) []byte { return []byte(size + kind + "\x00\x00\x00\x01") }
	image := `{"mime":"image/png","data":"iVBORw0KGgo="}`
	for name, input := range map[string][]byte{
		"unknown kind":          frame('Z', ""),
		"a kind of ours":        frame(worker.Execute, "{}"),
		"a second lockdown":     frame(worker.LockedDown, "{}"),
		"a huge output":         header("\x01\x00\x00\x01", "O"),
		"a huge outcome":        header("\xff\xff\xff\xff", "D"),
		"a long notice":         header("\x00\x01\x00\x01", "N"),
		"an outcome of no kind": frame(worker.Done, `{"status":"timed_out"}`),
		"an outcome of nothing": frame(worker.Done, ""),
		"broken outcome":        frame(worker.Done, `{"status":"completed","result":`),
		"a broken result":       frame(worker.Done, `{"status":"completed","result":nan}`),
		"two values":            frame(worker.Done, done+done),
		"a result too long":     frame(worker.Done, `{"status":"completed","result":"`+strings.Repeat("x", 1000)+`"}`),
		"a result too deep": frame(worker.Done, `{"status":"completed","result":`+strings.Repeat("[", 600)+strings.Repeat("]",
			600)+`}`),
		"a call that is none":      frame(worker.Call, `[`),
		"a call by text":           frame(worker.Call, `{"id":"a"}`),
		"a notice that is none":    frame(worker.Notice, `5`),
		"an image that is none":    frame(worker.Image, `{}`),
		"an image of another type": frame(worker.Image, `{"mime":"image/jpeg","data":"iVBORw0KGgo="}`),
		"a page as image":          frame(worker.Image, `{"mime":"text/html","data":"PGh0bWw+"}`),
		"nine images":              bytes.Repeat(frame(worker.Image, image), 9),
		"a large image":            frame(worker.Image, `{"mime":"image/png","data":"iVBORw0KGgo`+strings.Repeat("A", 7<<20)+`="}`),
	} {
		t.Run(name, func(t *testing.T) {
			o := runFrames(t, &echoHost{}, input, frame(worker.Done, done))
			if o.Status != sandbox.Crashed || !strings.Contains(o.Error, "broke the worker protocol") || len(o.Images) > 8 {
				t.Errorf("outcome is %+v", o)
			}
		})
	}
}

func TestLateFramesAreDropped(t *testing.T) {
	late := func(kind worker.Kind, number uint32, payload string) []byte {
		return encode(worker.Frame{Kind: kind, Number: number, Payload: []byte(payload)})
	}
	h := &echoHost{calling: func(context.Context, string) { t.Error("a late call was answered") }}
	o := runFrames(t, h,
		late(worker.Output, 0, "early"), late(worker.Output, 2, "late"), late(worker.Call, 7, `{"id":1}`),
		late(worker.Done, 0, `{"status":"completed","result":666}`), frame(worker.Output, "mine"), frame(worker.Done, done))
	if string(o.Result) != "1" || !cmp.Equal(h.output, []string{"mine"}) {
		t.Errorf("result %s, output %q", o.Result, h.output)
	}
}

func TestOutcomesAreBounded(t *testing.T) {
	long := strings.Repeat("é", 100_000)
	payload, err := json.Marshal(map[string]any{
		"status": "raised", "error": long, "error_type": long, "traceback": long, "limit": "the moon", "result": 5,
	})
	if err != nil {
		t.Fatal(err)
	}
	o := runFrames(t, &echoHost{}, frame(worker.Stderr, long), frame(worker.Stderr, "end\xff"), frame(worker.Output, "\xff"),
		frame(worker.Done, string(payload)))
	if o.Status != sandbox.Raised || o.Limit != "" || o.Result != nil {
		t.Errorf("outcome is %.200v", o)
	}
	for _, s := range []string{o.Error, o.ErrorType, o.Traceback} {
		if len(s) > 70_000 || !strings.HasSuffix(s, "é…") {
			t.Errorf("%d bytes, ending in %q", len(s), s[len(s)-5:])
		}
	}
	if len(o.Stderr) > 66_000 || !strings.HasPrefix(o.Stderr, "…") || !strings.HasSuffix(o.Stderr, "éend\uFFFD") {
		t.Errorf("stderr: %d bytes", len(o.Stderr))
	}
}

func TestClosedChannelIsCrash(t *testing.T) {
	for name, input := range map[string][]byte{"at once": nil, "within a frame": frame(worker.Output, "some text")[:12]} {
		t.Run(name, func(t *testing.T) {
			want := sandbox.Outcome{Status: sandbox.Crashed, ErrorType: "crashed"}
			if diff := cmp.Diff(want, runFrames(t, &echoHost{}, input)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestOutputErrorEndsExecution(t *testing.T) {
	h := &echoHost{refuse: fault.New(fault.Exhausted, "there is enough output")}
	o := runFrames(t, h, frame(worker.Output, "a"), frame(worker.Output, "b"), frame(worker.Done, done))
	want := sandbox.Outcome{Status: sandbox.OverLimit, Limit: sandbox.LimitOutput, Error: "there is enough output", ErrorType: "over_limit"}
	if diff := cmp.Diff(want, o); diff != "" || len(h.output) != 1 {
		t.Errorf("%s\noutput %q", diff, h.output)
	}
}

func TestRunRejectsVarsThatAreNotAnObject(t *testing.T) {
	ours, theirs := net.Pipe()
	defer theirs.Close()
	c := worker.New(ours, nil, nil, worker.Limits{})
	defer c.Close()
	for _, vars := range []string{`[]`, `5`, `{"a":}`, `{} {}`, `{"a": NaN}`} {
		_, err := c.Run(context.Background(), 1, sandbox.Program{Vars: json.RawMessage(vars)}, &echoHost{})
		if fault.KindOf(err) != fault.Invalid {
			t.Errorf("%s: %v", vars, err)
		}
	}
}

func TestRunEndsWithContext(t *testing.T) {
	for name, row := range map[string]struct {
		cause error
		want  sandbox.Status
	}{
		"a timeout":    {sandbox.ErrTimeout, sandbox.TimedOut},
		"cancellation": {nil, sandbox.Cancelled},
		"another":      {errors.New("stopping"), sandbox.Cancelled},
	} {
		t.Run(name, func(t *testing.T) {
			ours, theirs := net.Pipe()
			defer theirs.Close()
			c := worker.New(ours, nil, nil, worker.Limits{})
			defer c.Close()
			ctx, cancel := context.WithCancelCause(context.Background())
			go func() {
				_, _ = theirs.Read(make([]byte, 1000)) // the code has been sent
				cancel(row.cause)
			}()
			o, err := c.Run(ctx, 1, sandbox.Program{}, &echoHost{})
			if err != nil || o.Status != row.want || o.Error == "" {
				t.Errorf("%+v, %v", o, err)
			}
			o, err = c.Run(context.Background(), 2, sandbox.Program{}, &echoHost{})
			if err != nil || o.Status != sandbox.Crashed || o.Error == "" {
				t.Errorf("afterwards: %+v, %v", o, err)
			}
		})
	}
}

func TestWriteTimeoutCrashesSandbox(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		defer theirs.Close()
		c := worker.New(ours, nil, nil, worker.Limits{})
		defer c.Close()
		o, err := c.Run(context.Background(), 1, sandbox.Program{}, &echoHost{})
		if err != nil || o.Status != sandbox.Crashed || !strings.Contains(o.Error, "did not read") {
			t.Errorf("%+v, %v", o, err)
		}
	})
}

func TestCallsInFlightAreBounded(t *testing.T) {
	var open, most atomic.Int64
	full := make(chan struct{})
	var once sync.Once
	h := &echoHost{calling: func(ctx context.Context, _ string) {
		n := open.Add(1)
		defer open.Add(-1)
		most.Store(max(most.Load(), n))
		if n == 100 {
			once.Do(func() { close(full) })
		}
		<-ctx.Done()
	}}
	ours, theirs := net.Pipe()
	c := worker.New(ours, nil, nil, worker.Limits{})
	defer c.Close()
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		defer theirs.Close()
		_, _ = theirs.Read(make([]byte, 1000))
		for {
			if _, err := theirs.Write(frame(worker.Call, `{"id":1,"method":"m"}`)); err != nil {
				return
			}
		}
	}()
	go func() {
		<-full
		cancel()
	}()
	o, err := c.Run(ctx, 1, sandbox.Program{}, h)
	if err != nil || o.Status != sandbox.Cancelled {
		t.Errorf("%+v, %v", o, err)
	}
	if open.Load() != 0 || most.Load() > 128 {
		t.Errorf("%d calls are open after the end, %d were at a time", open.Load(), most.Load())
	}
}

func TestCallsAreCancelledWithExecution(t *testing.T) {
	var ended atomic.Bool
	h := &echoHost{calling: func(ctx context.Context, _ string) {
		<-ctx.Done()
		ended.Store(true)
	}}
	o := runFrames(t, h, frame(worker.Call, `{"id":1,"method":"m"}`), frame(worker.Done, done))
	if o.Status != sandbox.Completed || !ended.Load() {
		t.Errorf("%+v; the call has ended: %v", o, ended.Load())
	}
}

func TestWaitForCallsIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		forever := make(chan struct{})
		h := &echoHost{calling: func(context.Context, string) { <-forever }}
		started := time.Now()
		o := runFrames(t, h, frame(worker.Call, `{"id":1,"method":"m"}`), frame(worker.Done, done))
		if o.Status != sandbox.Completed || time.Since(started) > 10*time.Second {
			t.Errorf("%+v after %v", o, time.Since(started))
		}
		close(forever)
	})
}

func TestPipesAreDrainedAtEnd(t *testing.T) {
	ours, theirs := net.Pipe()
	outR, outW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	errR, errW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	c := worker.New(ours, outR, errR, worker.Limits{})
	t.Cleanup(func() { c.Close() })
	defer outW.Close()
	defer errW.Close()
	for i := range uint32(50) {
		long := strings.Repeat("x", 70_000) // more than a pipe holds
		go func() {
			_, _ = theirs.Read(make([]byte, 1000)) // the code
			_, _ = io.WriteString(outW, "one\n\n"+long+"\nrest")
			_, _ = io.WriteString(errW, "words")
			_, _ = theirs.Write(encode(worker.Frame{Kind: worker.Done, Number: i + 1, Payload: []byte(done)}))
		}()
		h := &echoHost{}
		o, err := c.Run(context.Background(), i+1, sandbox.Program{}, h)
		if err != nil || o.Stderr != "words" {
			t.Fatalf("%+v, %v", o, err)
		}
		if diff := cmp.Diff([]string{"one", "", long, "rest"}, h.output); diff != "" {
			t.Fatal(diff)
		}
	}
}
