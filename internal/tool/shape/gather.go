package shape

import (
	"hash/maphash"
	"math"
	"strconv"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/rawjson"
)

// Limits on the data that is kept for hostile input.
const (
	maxRows    = 5    // first items
	maxColumns = 64   // keys and columns
	maxName    = 256  // bytes of a name; longer keys are only counted
	maxStrings = 1000 // distinct strings of one column
	maxValues  = 5    // distinct strings that are listed
	maxDigits  = 64   // digits of a number; longer ones are not summed
)

// budget limits the memory of one Describe.
type budget struct{ hashes int }

// seed of the hashes, which are not compared across calls of Describe.
var seed = maphash.MakeSeed()

// set counts distinct byte strings approximately: by hash, up to a limit.
type set struct {
	seen map[uint64]struct{}
	full bool
}

func (s *set) add(b []byte, most int, left *budget) (fresh bool) {
	h := maphash.Bytes(seed, b)
	if _, ok := s.seen[h]; ok {
		return false
	}
	if len(s.seen) >= most || left.hashes <= 0 {
		s.full = true
		return false
	}
	if s.seen == nil {
		s.seen = make(map[uint64]struct{})
	}
	s.seen[h] = struct{}{}
	left.hashes--
	return true
}

// facts holds the properties of one value and of the values inside it.
type facts struct {
	span []byte
	kind kind

	count int
	keys  []member // of an object

	items   *tally // of an array
	columns []column
	byName  map[string]int // column name in its quotes -> index
	others  set            // names of further columns
	rows    [][]byte
}

// member is one member of an object.
type member struct {
	name  []byte // in its quotes
	value *facts
}

// column is one key in all objects of an array.
type column struct {
	name []byte // in its quotes
	tally
}

// tally accumulates statistics of values.
type tally struct {
	types   [kinds]int
	n       int // count of numbers
	min     float64
	max     float64
	mean    float64
	strings set
	samples [][]byte // the first distinct strings
}

// gather collects the facts of v and of values inside it, down to depth levels.
func gather(v []byte, left *budget, depth int) (f *facts, err error) {
	f = &facts{span: v, kind: kindOf(v)}
	switch {
	case f.kind == object:
		err = f.object(left, depth)
	case f.kind == array && depth > 0:
		err = f.array(left)
	case f.kind == array:
		err = rawjson.EachItem(v, func([]byte) bool { f.count++; return true })
	}
	return f, err
}

func (f *facts) object(left *budget, depth int) error {
	var inner error
	err := rawjson.EachMember(f.span, func(key, v []byte) bool {
		f.count++
		if depth == 0 || len(f.keys) == maxColumns {
			return true
		}
		var value *facts
		if value, inner = gather(v, left, depth-1); inner != nil {
			return false
		}
		f.keys = append(f.keys, member{key, value})
		return true
	})
	if inner != nil {
		return inner
	}
	return err
}

func (f *facts) array(left *budget) error {
	f.items = new(tally)
	f.byName = make(map[string]int)
	var inner error
	err := rawjson.EachItem(f.span, func(v []byte) bool {
		f.count++
		if len(f.rows) < maxRows {
			f.rows = append(f.rows, v)
		}
		f.items.add(v, left)
		if v[0] == '{' {
			inner = rawjson.EachMember(v, func(key, v []byte) bool { f.cell(key, v, left); return true })
		}
		return inner == nil
	})
	if inner != nil {
		return inner
	}
	return err
}

// cell adds a value to its column.
func (f *facts) cell(key, v []byte, left *budget) {
	i, ok := f.byName[string(key)]
	if !ok {
		if len(f.columns) == maxColumns || len(key) > maxName {
			f.others.add(key, math.MaxInt, left)
			return
		}
		i = len(f.columns)
		f.byName[string(key)] = i
		f.columns = append(f.columns, column{name: key})
	}
	f.columns[i].add(v, left)
}

// add adds a value to the statistics.
func (t *tally) add(v []byte, left *budget) {
	k := kindOf(v)
	t.types[k]++
	switch k {
	case integer, number:
		t.number(v)
	case text:
		if t.strings.add(v, maxStrings, left) && len(t.samples) < maxValues {
			t.samples = append(t.samples, v)
		}
	}
}

func (t *tally) number(v []byte) {
	if len(v) > maxDigits {
		return
	}
	x, err := strconv.ParseFloat(string(v), 64)
	if err != nil {
		return
	}
	if t.n == 0 {
		t.min, t.max = x, x
	}
	t.n++
	t.min, t.max = min(t.min, x), max(t.max, x)
	t.mean += x/float64(t.n) - t.mean/float64(t.n) // cannot overflow
}

// kinds returns the types seen except null, which is counted separately. "number"
// includes integers if both occur.
func (t *tally) kinds() string {
	var names []string
	for k, n := range t.types {
		switch k := kind(k); {
		case n == 0, k == integer && t.types[number] > 0, k == null && t.seen() > n:
		default:
			names = append(names, k.String())
		}
	}
	return strings.Join(names, "|")
}

// seen returns the number of values added.
func (t *tally) seen() (n int) {
	for _, k := range t.types {
		n += k
	}
	return n
}
