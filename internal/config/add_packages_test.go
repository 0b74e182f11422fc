package config_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/config"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

func TestSetPackagesKeepsOtherBytes(t *testing.T) {
	names, preload := []string{"pandas", "numpy==2.*"}, []string{"pandas"}
	const list = "  packages: [pandas, \"numpy==2.*\"]\n"
	const both = list + "  preload: [pandas]\n"
	for text, want := range map[string]string{
		"":                                     "sandbox:\n" + both,
		"profile: lean":                        "profile: lean\nsandbox:\n" + both,
		"sandbox:\n  # a\n  timeout: 5s # b\n": "sandbox:\n" + both + "  # a\n  timeout: 5s # b\n",
		"sandbox:\n  packages: [a]\nx: {}":     "sandbox:\n  preload: [pandas]\n" + list + "x: {}\n",
		"sandbox: {timeout: 5s}\n":             "sandbox: {timeout: 5s, preload: [pandas], packages: [pandas, \"numpy==2.*\"]}\n",
		"sandbox: {packages: [a], timeout: 5s}\n": "sandbox: {packages: [pandas, \"numpy==2.*\"], timeout: 5s, preload: [pandas]}\n",
		`{"profile": "lean"}`: `{"profile": "lean", "sandbox": {"preload": ["pandas"], "packages": ["pandas", ` +
			`"numpy==2.*"]}}`,
		"sandbox: {packages: *a}\n":              "",
		"sandbox:\n  packages: [pandas] # old\n": "sandbox:\n  preload: [pandas]\n" + list,
		"sandbox:\n  packages:\n    - a\n    # b\n    - c\n  preload: [x]\nprofile: lean\n":  "sandbox:\n" + both + "profile: lean\n",
		"sandbox:\n  packages:\n  - a\n  - b\n  preload:\n  - pandas\nservers: {}\n":         "sandbox:\n" + both + "servers: {}\n",
		"sandbox:\n  packages: [\n    a,\n    b\n  ]\n  preload: [\n    c]\nprofile: lean\n": "sandbox:\n" + both + "profile: lean\n",
	} {
		got, err := config.SetPackages("/x/sandpiper.yaml", []byte(text), names, preload)
		if want == "" {
			if err == nil {
				t.Errorf("%q became %q", text, got)
			}
			continue
		}
		if err != nil {
			t.Errorf("%q: %v", text, err)
		} else if d := cmp.Diff(want, string(got)); d != "" {
			t.Errorf("%q: %s", text, d)
		}
	}
	if _, err := config.SetPackages("/x/sandpiper.yaml", []byte("x: &a []\nsandbox: {packages: *a}\n"), names, nil); fault.Hint(err) == "" {
		t.Errorf("got %v, want a hint", err)
	}
}
