//go:build linux

package worker_test

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/worker"
)

// clocked is a host that records the clock readings and the calls that carried them.
type clocked struct {
	*host
	mu       sync.Mutex
	readings []int64
	at       []int // how many readings there were at each call
}

func (c *clocked) RecordClock(_ int, readings []int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.readings = append(c.readings, readings...)
}

func (c *clocked) CallNow(context.Context, string, []byte) ([]byte, bool, error) {
	return nil, false, nil
}

func (c *clocked) Call(ctx context.Context, method string, args []byte) ([]byte, error) {
	c.mu.Lock()
	c.at = append(c.at, len(c.readings))
	c.mu.Unlock()
	return c.host.Call(ctx, method, args)
}

func seed(b byte) []byte { return bytes.Repeat([]byte{b}, 32) }

// drawn are expressions whose value is random.
var drawn = []string{
	"random.random()",
	"[random.gauss(0, 1), random.randint(0, 10**9), random.choice(range(10**6)), random.sample(range(10**6), 3)]",
	"random.Random().random()",
	"(random.seed(), random.random())[1]",
	"random.SystemRandom().random()",
	"os.urandom(16).hex()",
	"hashlib.sha256(os.urandom(3_000_000)).hexdigest()",
	"secrets.token_hex(8)",
	"secrets.choice(range(10**6))",
	"str(uuid.uuid4())",
	"str(uuid.uuid1().node)",
	"tempfile.mktemp()",
	"forked(lambda: random.random())",
	"forked(lambda: os.urandom(8).hex())",
}

const drawing = `
import hashlib, os, random, secrets, tempfile, uuid
def forked(f):
    r, w = os.pipe()
    if os.fork() == 0:
        os.write(w, str(f()).encode()); os._exit(0)
    os.wait()
    return os.read(r, 100).decode()
[EXPR, EXPR]`

func TestSeedRepeatsRandomNumbers(t *testing.T) {
	for _, expr := range drawn {
		t.Run(expr, func(t *testing.T) {
			draw := func(seed []byte) string {
				o := open(t, worker.Limits{}).program(t, sandbox.Program{Code: strings.ReplaceAll(drawing, "EXPR", expr), Seed: seed},
					newHost())
				if o.Status != sandbox.Completed {
					t.Fatalf("%s: %s", o.Status, o.Traceback)
				}
				return string(o.Result)
			}
			first := draw(seed(1))
			if again := draw(seed(1)); again != first {
				t.Errorf("the same seed draws %s, then %s", first, again)
			}
			if other := draw(seed(2)); other == first {
				t.Errorf("another seed draws %s too", first)
			}
			if one, other := draw(nil), draw(nil); one == other {
				t.Errorf("without a seed it is %s twice", one)
			}
			var pair []any
			if err := json.Unmarshal([]byte(first), &pair); err != nil || len(pair) != 2 {
				t.Fatal(first, err)
			}
			if a, _ := json.Marshal(pair[0]); !strings.Contains(expr, "node") && strings.Contains(first[len(a):], string(a)) {
				t.Errorf("drawn twice: %s", first)
			}
		})
	}
}

// timed are expressions that read the clock once, as seconds or more exactly.
var timed = []string{
	"time.time()",
	"time.time_ns() / 1e9",
	"time.clock_gettime(time.CLOCK_REALTIME)",
	"time.clock_gettime_ns(time.CLOCK_REALTIME) / 1e9",
	"calendar.timegm(time.gmtime())",
	"calendar.timegm(time.localtime())",
	"calendar.timegm(time.strptime(time.ctime()))",
	"calendar.timegm(time.strptime(time.asctime()))",
	"calendar.timegm(time.strptime(time.strftime('%c')))",
	"datetime.now().timestamp()",
	"datetime.now(tz=dt.UTC).timestamp()",
	"datetime.now(dt.timezone(timedelta(hours=3))).timestamp()",
	"datetime.utcnow().timestamp()",
	"datetime.today().timestamp()",
	"Later.now().timestamp() if isinstance(Later.now, object) else 0",
	"datetime.combine(date.today(), dt.time()).timestamp()",
	"uuid.uuid7().time / 1000",
	"logging.makeLogRecord({}).created",
}

const reading = `
import calendar, datetime as dt, logging, time, uuid, warnings
warnings.simplefilter('ignore')
class Later(datetime): pass
first, list_skills_ = EXPR, list_skills()
second = EXPR
list_skills()
[first, second]`

func TestClockReadingsAreReplayed(t *testing.T) {
	for _, expr := range timed {
		t.Run(expr, func(t *testing.T) {
			code := strings.ReplaceAll(reading, "EXPR", expr)
			read := func(clock []int64) (*clocked, string) {
				h := &clocked{host: newHost()}
				o := open(t, worker.Limits{}).program(t, sandbox.Program{Code: code, Seed: seed(1), Clock: clock}, h)
				if o.Status != sandbox.Completed {
					t.Fatalf("%s: %s", o.Status, o.Traceback)
				}
				return h, string(o.Result)
			}
			// makeLogRecord and the like may read more than once
			before := time.Now().UnixNano()
			h, first := read(nil)
			n := len(h.readings) / 2
			if n == 0 || !slices.Equal(h.at, []int{n, 2 * n}) {
				t.Fatalf("readings %d, of them at the calls %v", len(h.readings), h.at)
			}
			if !slices.IsSorted(h.readings) || h.readings[0] < before || h.readings[2*n-1] > time.Now().UnixNano() {
				t.Errorf("%v was read after %d", h.readings, before)
			}
			past := []int64{1_000_000_000_123_456_789, 1_000_090_000_999_999_999}
			clock := append(slices.Repeat(past[:1], n), slices.Repeat(past[1:], n)...)
			again, got := read(clock)
			if len(again.readings) != 0 {
				t.Errorf("replayed readings were sent again: %v", again.readings)
			}
			if !strings.HasPrefix(got, "[1000") && !strings.HasPrefix(got, "[9999") || got == first { // today began before
				t.Errorf("with %v it read %s", clock, got)
			}
			if _, same := read(clock); same != got {
				t.Errorf("it read %s, then %s", got, same)
			}
			if rest, _ := read(clock[:n]); len(rest.readings) != n || rest.readings[0] < before {
				t.Errorf("after the readings given it read %v", rest.readings)
			}
		})
	}
}

func TestClockIsMonotonicAfterReplay(t *testing.T) {
	h, future := &clocked{host: newHost()}, time.Now().Add(time.Hour).UnixNano()
	o := open(t, worker.Limits{}).program(t, sandbox.Program{Code: "import time\n[time.time_ns() for _ in range(3)]", Seed: seed(1),
		Clock: []int64{future}}, h)
	var got []int64
	if err := json.Unmarshal(o.Result, &got); err != nil || !slices.Equal(got, []int64{future, future, future}) {
		t.Errorf("%s %s %v", o.Result, o.Traceback, err)
	}
}

func TestClockReadingsAreBounded(t *testing.T) {
	h := &clocked{host: newHost()}
	o := open(t, worker.Limits{}).program(t, sandbox.Program{Code: "import time\nfor _ in range(20_000): " +
		"time.time()\nlist_skills()\ntime.time()\nlist_skills()", Seed: seed(1)}, h)
	if o.Status != sandbox.Completed || !slices.Equal(h.at, []int{sandbox.MaxClockReadings, sandbox.MaxClockReadings}) {
		t.Errorf("%s %s: readings at the calls %v", o.Status, o.Error, h.at)
	}
}

// The largest arguments leave room for the readings that come with them.
func TestClockReadingsFitLargestCall(t *testing.T) {
	h := &clocked{host: newHost()}
	o := open(t, worker.Limits{}).program(t, sandbox.Program{Code: call +
		"import time\nfor _ in range(20_000): time.time()\nlen(_call('echo', 'x' * ((16 << 20) - 1100)))", Seed: seed(1)}, h)
	if o.Status != sandbox.Completed || !slices.Equal(h.at, []int{sandbox.MaxClockReadings}) {
		t.Errorf("%s %s: readings at the calls %v", o.Status, o.Error, h.at)
	}
}

func TestForgedClockReadingsCrashSandbox(t *testing.T) {
	const forge = `
import os, struct
def call(clock):
    p = b'{"id":900,"method":"echo","args":1,"clock":%s}' % clock
    os.write(save_skill.__self__._channel.fd, struct.pack(">IcI", len(p), b"C", 1) + p)
`
	for name, row := range map[string]struct {
		code string
		seed []byte
	}{
		"without a seed":   {"call(b'[1]')", nil},
		"too many":         {"call(b'[%s]' % b','.join([b'1'] * 10_001))", seed(1)},
		"too many in all":  {"for _ in range(3): call(b'[%s]' % b','.join([b'1'] * 5000))", seed(1)},
		"before 1970":      {"call(b'[-1]')", seed(1)},
		"no whole numbers": {"call(b'[1.5]')", seed(1)},
		"no list":          {"call(b'5')", seed(1)},
		"too large":        {"call(b'[99999999999999999999]')", seed(1)},
	} {
		t.Run(name, func(t *testing.T) {
			h := &clocked{host: newHost()}
			o := open(t, worker.Limits{}).program(t, sandbox.Program{Code: forge + row.code + "\nimport time\ntime.sleep(20)",
				Seed: row.seed}, h)
			if o.Status != sandbox.Crashed || !strings.Contains(o.Error, "broke the worker protocol") ||
				len(h.readings) > sandbox.MaxClockReadings {
				t.Errorf("%s %q with %d readings", o.Status, o.Error, len(h.readings))
			}
		})
	}
}

func TestRunRejectsInvalidSeed(t *testing.T) {
	w := open(t, worker.Limits{})
	for name, p := range map[string]sandbox.Program{
		"short":             {Seed: []byte("x")},
		"empty":             {Seed: []byte{}},
		"a clock alone":     {Clock: []int64{1}},
		"too many readings": {Seed: seed(1), Clock: make([]int64, sandbox.MaxClockReadings+1)},
	} {
		if _, err := w.Run(t.Context(), 1, p, newHost()); fault.KindOf(err) != fault.Invalid {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestSeedAppliesToOneExecution(t *testing.T) {
	w, h := open(t, worker.Limits{}), newHost()
	run := func(code string, seed []byte, clock ...int64) string {
		o := w.program(t, sandbox.Program{Code: code, Seed: seed, Clock: clock}, h)
		if o.Status != sandbox.Completed {
			t.Fatalf("%s: %s", code, o.Traceback)
		}
		return string(o.Result)
	}
	const draw = "import os, random, time\nfrom time import time_ns\nfrom os import urandom\n[random.random(), urandom(8).hex(), time_ns()]"
	run("import random\nrandom.seed(5)\nbefore = random.getstate()", nil)
	first := run(draw, seed(1), 7)
	if again := run(draw, seed(1), 7); again != first {
		t.Errorf("the same seed draws %s, then %s", first, again)
	}
	if got := run("random.getstate() == before", nil); got != "true" {
		t.Error("the state of random was not restored")
	}
	one, other := run("[urandom(8).hex(), time_ns()]", nil), run("[urandom(8).hex(), time_ns()]", nil)
	if one == other || strings.Contains(one, ",7]") {
		t.Errorf("after the seed it draws %s and %s", one, other)
	}
	run("import random\nclass R:\n    def __getattr__(self, n): 1/0\nrandom._inst = R(); random.Random.setstate = None", seed(1))
	run("1", nil)
}
