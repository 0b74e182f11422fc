package mix

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/feature/bench/rig"
)

func TestPickFollowsShares(t *testing.T) {
	for _, mix := range [][]Operation{All, Tenants} {
		operations, want := map[string]int{}, map[string]int{}
		for n := range int64(100) {
			operations[pick(mix, n).Name]++
		}
		for _, q := range mix {
			want[q.Name] = q.Share
		}
		if diff := cmp.Diff(want, operations); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}

func TestExpectRejectsWrongResults(t *testing.T) {
	right := rig.Execution{Success: true, Result: []byte(`"c1-7"`)}
	failed := rig.Execution{ErrorType: "ValueError", Output: []string{"c1-7"}}
	for name, err := range map[string]error{
		"another value":   expect(right, nil, "c1-8"),
		"a failure":       expect(failed, nil, "c1-7"),
		"no result":       expect(right, errors.New("gone"), "c1-7"),
		"another output":  expectError(failed, nil, "ValueError", "c1-8"),
		"another failure": expectError(failed, nil, "timeout", "c1-7"),
		"a success":       expectError(right, nil, "ValueError", "c1-7"),
	} {
		if err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
	if err := errors.Join(expect(right, nil, "c1-7"), expectError(failed, nil, "ValueError", "c1-7")); err != nil {
		t.Error(err)
	}
}
