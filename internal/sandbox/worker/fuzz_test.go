//go:build linux

package worker_test

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"strings"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/sandbox"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/worker"
)

// build converts bytes to a value: each byte selects a type, some of them hostile.
const build = `
import dataclasses, decimal, enum, fractions, uuid
class Bad:
    def __repr__(self): raise ValueError
    def __iter__(self): raise KeyError
class Worse(dict):
    def items(self): return [1]
class Endless(list):
    def __iter__(self): return self
    def __next__(self): return self
@dataclasses.dataclass
class Data:
    x: object
class Color(enum.Enum):
    RED = (1, 2)
Point = collections.namedtuple('Point', 'x y')
leaves = [None, True, 0, -1, 2**63, 2**70000, 1.5, float('nan'), float('-inf'), '', '\ud800', '\udfff\ud83d', 'é\x00"\\', b'', b'\xff',
    datetime.max, date.min, timedelta.max, decimal.Decimal('sNaN'), decimal.Decimal('1E-400'), fractions.Fraction(1, 3), 1j, Color.RED,
    uuid.UUID(int=0), Bad(), Bad, len, json, Worse(a=1), range(5), bytearray(b'x'), memoryview(b'\xfe'), ..., NotImplemented, Endless()]
def build(data):
    bag = []
    for b in data:
        kind, n = b >> 5, b & 31
        some = bag[-n:] if n else []
        try:
            if kind < 3: v = leaves[b % len(leaves)]
            elif kind == 3: v = [list, tuple, iter, collections.deque, set, frozenset, reversed, map.__call__][n % 6](some)
            elif kind == 4: v = dict(zip(some, reversed(some)))
            elif kind == 5: v = Data(some)
            elif kind == 6:
                v = Point(some, some)
                if some and isinstance(some[0], list): some[0].append(v)
            else: v = [some] * n
        except TypeError:
            v = some
        bag.append(v)
    return bag
build(bytes.fromhex(data))
`

// FuzzConversion checks that every result becomes JSON or is reported as too large.
func FuzzConversion(f *testing.F) {
	f.Add([]byte("\x00\x01\x02\x60\x83\xa4\xc5\xe6\xff"))
	f.Add([]byte("\x61\x61\xc1\xc2\xc3\xff\xff\xff\xff\xff\xff"))
	f.Add([]byte{5, 9, 10, 11, 0x84, 24, 25, 28, 34, 0x62, 0x63, 0x9f})
	w := open(f, worker.Limits{ResultBytes: 1 << 16})
	f.Fuzz(func(t *testing.T, data []byte) {
		vars, err := json.Marshal(map[string]any{"data": hex.EncodeToString(data[:min(len(data), 200)])})
		if err != nil {
			t.Fatal(err)
		}
		o := w.run(context.Background(), t, build, string(vars), newHost())
		if o.Status != sandbox.Completed && o.Limit != sandbox.LimitResult {
			t.Fatalf("%x: %+v", data, o)
		}
	})
}

// FuzzTokens checks that replacing a token, in the tree or in the source, puts its
// value into the constant and does not change the code otherwise.
func FuzzTokens(f *testing.F) {
	for _, value := range hostile {
		for kind := range byte(6) {
			f.Add(value[:min(len(value), 100)], kind*43, kind*7, kind*3)
		}
	}
	const both = `
from sandpiper import literals, privacy
tokens = privacy.Tokens({token: value})
want = eval(literal, {'y': 1})
want = want.replace(token.encode(), value.encode()) if isinstance(want, bytes) else want.replace(token, value)
source = 'x = ' + literal + ' # ' + token
found = literals.verdict(source, tokens.values) or {'source': source}
names = {'y': 1}
if 'source' in found: exec(found['source'], names)
`
	w := open(f, worker.Limits{})
	f.Fuzz(func(t *testing.T, value string, kind, before, after byte) {
		value = strings.ToValidUTF8(value, "?")
		literal, raw := literalOf(kind, before, after)
		vars := variables(t, map[string]any{"token": mail, "value": value, "literal": literal})
		o := w.program(t, sandbox.Program{Code: both + "[names.get('x') == want, found.get('token', False)]", Vars: vars}, newHost())
		if got := string(o.Result); got != "[true,false]" && (!raw || got != "[false,true]") {
			t.Errorf("%s with %q: %s %s", literal, value, got, o.Error)
		}
		o = w.program(t, sandbox.Program{Code: literal + " == want", Vars: json.RawMessage(`{"y": 1}`),
			Tokens: map[string]string{mail: value}}, newHost())
		if string(o.Result) != "true" {
			t.Errorf("%s is not the value %q: %s %s", literal, value, o.Result, o.Error)
		}
	})
}

// literalOf returns a literal with a token, valid where y is 1. raw reports whether
// the literal cannot contain every value.
func literalOf(kind, before, after byte) (literal string, raw bool) {
	prefixes := []string{"", "u", "b", "f", "F", "r", "Rb", "fr", "rF", "B"}
	quotes := []string{`'`, `"`, `'''`, `"""`}
	around := []string{"", "a", `\\`, `\`, `\x41`, "é", " ", mail, "#", "1 2", `\t`}
	prefix, quote := prefixes[int(kind)%len(prefixes)], quotes[int(kind)/len(prefixes)%len(quotes)]
	lower := strings.ToLower(prefix)
	if strings.Contains(lower, "f") {
		around = append(around, "{y}", "{{", "}}", "{y:>3}", "{y!r}")
	}
	front, back := around[int(before)%len(around)], around[int(after)%len(around)]
	if strings.Contains(lower, "b") {
		front, back = strings.ReplaceAll(front, "é", "e"), strings.ReplaceAll(back, "é", "e")
	}
	return prefix + quote + front + mail + back + "." + quote, strings.Contains(lower, "r")
}
