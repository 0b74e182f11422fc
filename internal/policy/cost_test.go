package policy

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/tool"
)

// A condition that joins an argument many times is not evaluated to its end.
func TestCostOfTextsIsLimited(t *testing.T) {
	c, err := compileCondition(strings.Repeat("args.t + ", 200) + `"x" == "y"`)
	if err != nil {
		t.Fatal(err)
	}
	args, _ := json.Marshal(map[string]string{"t": strings.Repeat("a", 1<<20)})
	e := newEvaluation(&Call{Ref: tool.Ref{Server: "s", Tool: "t"}, Args: args})
	defer e.close()
	if fit, err := c.eval(t.Context(), e); fit != undecided || err == nil || !strings.Contains(err.Error(), "cost") {
		t.Errorf("%v, %v", fit, err)
	}
}

func TestPatternsAreLimited(t *testing.T) {
	for text, want := range map[string]string{
		`args.t.matches(args.p)`: "is no literal",
		`tool.name.matches("` + strings.Repeat("(a{1,30}){1,30}", 3) + `")`: "is too large",
		`args.exists(k, k.matches("a" + k))`:                                "is no literal",
		`args.t.matches("^[a-z]{1,60}@example[.]com$")`:                     "",
	} {
		_, err := compileCondition(text)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
