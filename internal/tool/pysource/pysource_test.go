package pysource_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/tool/pysource"
)

const source = `#!/usr/bin/env python3
"""Weather of cities.

    The source is a station on the roof.
"""
from client.mcp_client import call_mcp_tool

text = """
def not_a_function(): pass
"""

@cached
async def get_weather(
    city: str,  # in English (or German)
    units: str = "C)",
    *, days: dict[str, int] | None = None,
) -> dict[str, "float:1"]:
    # A comment first.
    """Return the weather
    of a city.

        indented
    """
    def inner(): pass
    return await call_mcp_tool("weather", "get_weather", {"city": city})

def one_line(x): "Doubles."; return 2 * x
def without(a, b=(1, 2)):
    return f"{a["x"]}"
def generic[T: (int, str)](x: T) -> T: return x
def escaped():
    "A \"quoted\" \\ text"
def raw():
    r'''C:\new'''
def _own(): pass
class C:
    def method(self): pass
if True:
    def conditional(): pass
def \
    continued(a,
              b):
    '''Last.'''
def without(a):
    """The second."""
`

func TestParse(t *testing.T) {
	got := pysource.Parse([]byte(source))
	if got.Doc != "Weather of cities.\n\nThe source is a station on the roof." {
		t.Errorf("%q", got.Doc)
	}
	want := []struct {
		signature, doc string
		async          bool
	}{
		{`get_weather(city: str, units: str = "C)", *, days: dict[str, int] | None = None) -> dict[str, "float:1"]`,
			"Return the weather\nof a city.\n\n    indented", true},
		{"one_line(x)", "", false}, // "Doubles." is followed by a statement on its line
		{"without(a)", "The second.", false},
		{"generic(x: T) -> T", "", false},
		{"escaped()", `A "quoted" \ text`, false},
		{"raw()", `C:\new`, false},
		{"continued(a, b)", "Last.", false},
	}
	if len(got.Functions) != len(want) {
		t.Fatalf("%+v", got.Functions)
	}
	for i, f := range got.Functions {
		if d := cmp.Diff(want[i].signature, f.Signature()); d != "" || f.Doc != want[i].doc || f.Async != want[i].async {
			t.Errorf("%s%+v", d, f)
		}
	}
	if f, ok := got.Find("raw"); !ok || f.Name != "raw" {
		t.Error(f, ok)
	}
}

// A function of valid source is found whatever surrounds it, and no source makes Parse fail.
func FuzzParse(f *testing.F) {
	f.Add("x = 1\n")
	f.Add("'''")
	f.Add("def f(")
	f.Add("def f(a='\\")
	f.Add("async def f[")
	f.Add("\"\"\"doc\\")
	f.Fuzz(func(t *testing.T, text string) {
		for _, found := range pysource.Parse([]byte(text)).Functions {
			_ = found.Signature()
		}
	})
}
