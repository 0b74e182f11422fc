package main

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/access/accesstest"
	"github.com/sandpiper-mcp/sandpiper/internal/longtest"
)

// The commands of docs/serving.md print what the page shows, with a real provider and daemon.
// UPDATE_SCRIPTS writes what they print to the page.
func TestServingTranscript(t *testing.T) {
	longtest.SkipSlow(t)
	t.Parallel()
	if _, err := exec.LookPath("curl"); err != nil {
		if os.Getenv("REQUIRE_CLIENTS") != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	needSandbox(t)
	const file = "../../docs/serving.md"
	page, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	at := accesstest.Start(t)
	d := startServing(t, "", fmt.Sprintf(`http: {oidc: {issuer: %q, resource: "https://mcp.example.com/mcp", audience: sandpiper, claim: `+
		`customer_uid}}`, at.URL))
	b := startShell(t, t.TempDir(), map[string]string{"https://mcp.example.com": "http://" + d.addr, "https://id.example.com": at.URL},
		[]string{
			"EXPIRED=" + at.TokenFor(accesstest.Audience, -time.Minute, "customer_A", "execute"),
			"BILLING=" + at.TokenFor("billing", time.Hour, "customer_A", "execute"),
		})
	at.Token("customer_A", "execute") // sets the audience of the tokens that follow
	got := regexp.MustCompile("(?ms)^### [^\n]*$|^```console\n.*?^```$").ReplaceAllStringFunc(string(page), func(part string) string {
		switch {
		case part == "### A rotated key":
			at.Rotate()
			awaitKey(t, d, at)
		case strings.HasPrefix(part, "```"):
			return b.repeat(part)
		}
		return part
	})
	if os.Getenv("UPDATE_SCRIPTS") != "" {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(strings.Split(string(page), "\n"), strings.Split(got, "\n")); diff != "" {
		t.Errorf("docs/serving.md differs from what its commands print (+); UPDATE_SCRIPTS=1 updates it:\n%s", diff)
	}
	for _, want := range []string{`\"result\":42`, "\n200\n", "\n401\n", "unknown token",
		`"authorization_servers":["https://id.example.com"]`, "\nexpired\n", `"aud":["billing"]`} {
		if !strings.Contains(got, want) {
			t.Errorf("the page does not show %s", want)
		}
	}
}

// awaitKey waits until the daemon has read the provider's new key.
func awaitKey(t *testing.T, d *daemonProcess, at *accesstest.Provider) {
	t.Helper()
	v := d.visit("Authorization", "Bearer "+at.Token("customer_A", "execute"))
	for status := 0; status != 200; {
		res := v.must(v.call(t.Context(), "1"))
		res.Body.Close()
		if status = res.StatusCode; status != 200 {
			select {
			case <-t.Context().Done():
				t.Fatal("the new key is not accepted")
			case <-time.After(500 * time.Millisecond):
			}
		}
	}
}
