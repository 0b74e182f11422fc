package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/longtest"

	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver/wire/wiretest"
)

// chromium is a browser that a script of testdata/clients controls.
type chromium struct {
	program string
	modules wiretest.Modules
}

// newChromium skips the test if there is no browser, and fails it if REQUIRE_BROWSER is set.
func newChromium(t *testing.T) chromium {
	t.Helper()
	program, err := exec.LookPath("chromium")
	required := os.Getenv("REQUIRE_BROWSER") != ""
	switch {
	case required && err != nil:
		t.Fatal(err)
	case err != nil:
		t.Skip(err)
	case required && os.Getenv("MCP_CLIENTS") == "":
		t.Fatal("REQUIRE_BROWSER is set, but not MCP_CLIENTS")
	}
	return chromium{program, wiretest.Installed(t, "playwright-core")}
}

// sight is what the browser shows after a step.
type sight struct {
	Status     int
	URL        string
	Title      string
	Text       string
	Values     string // in the box of arguments
	Buttons    []string
	Background string
	Fetched    string // by a script of another site
}

type browserStep map[string]any

// visit makes steps with a new profile, and fails the test if the browser complains.
func (c chromium) visit(t *testing.T, d *daemonProcess, asked string, steps ...browserStep) []sight {
	t.Helper()
	home := t.TempDir()
	text, err := json.Marshal(steps)
	if err != nil {
		t.Fatal(err)
	}
	path := script(t, home, c.modules, "browser.mjs")
	out, code := c.modules.Run(t, home, path, c.program, filepath.Join(home, "profile"), "http://"+d.addr, asked, string(text))
	var got struct {
		Results    []sight
		Complaints []string
	}
	if err := json.Unmarshal(out, &got); err != nil || code != 0 || len(got.Results) != len(steps) {
		t.Fatalf("exit code %d, %v: %s", code, err, out)
	}
	for _, complaint := range got.Complaints {
		if !strings.Contains(complaint, "the server responded with a status of 40") { // of the answers that a step expects
			t.Errorf("the browser complains: %s", complaint)
		}
	}
	return got.Results
}

// A person approves one call and denies another in Chromium, with the real values before their
// eyes. Another site, which knows even the secret of the form, can neither answer nor frame the
// page, and another tenant finds nothing.
func TestApprovalPageInBrowser(t *testing.T) {
	longtest.SkipSlow(t)
	t.Parallel()
	browser := newChromium(t)
	needSandbox(t)
	const tokenA, tokenB = "0123456789-of-acme", "0123456789-of-other"
	d := startServing(t, "", fmt.Sprintf("http: {tokens: {acme: %s, other: %s}}\nservers:\n  crm: {command: %s/crm}\n", tokenA, tokenB,
		exampleServers(t)))
	v := d.visit("Authorization", "Bearer "+tokenA)
	open, signIn := browserStep{"do": "open"}, browserStep{"do": "sign in", "token": tokenA}
	approve := browserStep{"do": "approve"}
	shot := func(name string, more browserStep) browserStep { return screenshot(t, name, more) }
	state := func(execution string) string {
		return v.toolText("resume_execution", fmt.Sprintf(`{"execution_id":%q}`, execution))
	}

	run, asked := v.suspendedCall("ada@example.com")
	if got := state(run); strings.Contains(got, "ada@example.com") || !strings.Contains(got, "EMAIL_") {
		t.Errorf("the value is not private: %s", got)
	}
	saw := browser.visit(t, d, asked, open, shot("sign-in", nil), signIn, shot("open", nil), shot("open-dark", browserStep{"dark": true}),
		shot("open-narrow", browserStep{"width": 360}),
		browserStep{"do": "forge"}, browserStep{"do": "frame"}, open, approve, shot("approved", nil), open, browserStep{"do": "sign out"})
	login, form, forged, framed, after, approved, again, out := saw[0], saw[2], saw[6], saw[7], saw[8], saw[9], saw[11], saw[12]
	if login.Status != 401 || !strings.Contains(login.Text, "Sign in to answer an approval") || strings.Contains(login.Text, "crm") {
		t.Errorf("before signing in: %+v", login)
	}
	if login.Background != "rgb(244, 245, 247)" {
		t.Errorf("the style of the page is not applied: the background is %s", login.Background)
	}
	if form.Status != 200 || form.URL != "/approve/"+asked || !strings.Contains(form.Values, `"email": "ada@example.com"`) ||
		!strings.Contains(form.Values, `<b>Ada</b>\u202e`) ||
		!slices.Equal(form.Buttons, []string{"Deny", "Approve", "Sign out"}) {
		t.Errorf("after signing in: %+v", form)
	}
	if forged.Status != 403 || forged.Fetched == "" || !strings.Contains(forged.Text, "are not allowed") {
		t.Errorf("a form of another site: %+v", forged)
	}
	if strings.Contains(framed.Text, "crm") || strings.Contains(framed.Text, "Sign in") {
		t.Errorf("a page of another site frames %s", framed.Text)
	}
	if !slices.Contains(after.Buttons, "Approve") {
		t.Errorf("another site answered: %+v", after)
	}
	for _, s := range []sight{approved, again} {
		if s.Status != 200 || !strings.Contains(s.Text, "Approved at") || !strings.Contains(s.Text, "ada@example.com") ||
			slices.Contains(s.Buttons, "Approve") {
			t.Errorf("after approving: %+v", s)
		}
	}
	if !strings.Contains(out.Text, "Sign in to answer an approval") {
		t.Errorf("after signing out: %+v", out)
	}
	if got := state(run); !strings.Contains(got, `\"success\":true`) {
		t.Errorf("the approved call: %s", got)
	}

	run, asked = v.suspendedCall("grace@example.com")
	saw = browser.visit(t, d, asked, open, browserStep{"do": "sign in", "token": tokenB}, shot("foreign", nil),
		browserStep{"do": "sign out"}, signIn)
	if foreign, own := saw[1], saw[4]; foreign.Status != 404 || !strings.Contains(foreign.Text, "There is no approval") ||
		strings.Contains(foreign.Text, "crm") || !strings.Contains(own.Text, "grace@example.com") {
		t.Errorf("another tenant sees %+v, and the tenant itself afterwards %+v", foreign, own)
	}
	saw = browser.visit(t, d, asked, open, browserStep{"do": "sign in", "token": "wrong"}, signIn,
		browserStep{"do": "deny", "reason": "not <her>"}, shot("denied", nil))
	if wrong, denied := saw[1], saw[3]; wrong.Status != 401 || !strings.Contains(wrong.Text, "This token is not valid") ||
		!strings.Contains(denied.Text, "Denied at") || !strings.Contains(denied.Text, "Reason: not <her>") {
		t.Errorf("a wrong token shows %+v, and denying %+v", wrong, denied)
	}
	if got := state(run); !strings.Contains(got, "the user declined: not \\u003cher\\u003e") && !strings.Contains(got,
		"the user declined: not <her>") {
		t.Errorf("the denied call: %s", got)
	}
	browser.judge(t, d, v, tokenA)
}

// judge lets a person judge a call with 1,000 contacts, and allow all calls of the execution.
func (c chromium) judge(t *testing.T, d *daemonProcess, v *visitor, token string) {
	t.Helper()
	run, asked := v.suspend(`from servers import crm
people = [{"email": f"c{i}@example.com", "name": f"Ada {i}", "segment": "gold"} for i in range(1000)]
people[999]["notes"] = "<i>" * 500
crm.upsert_many(contacts=people)["created"] + crm.upsert_many(contacts=[{"email": "z@example.com"}])["created"]`)
	saw := c.visit(t, d, asked, browserStep{"do": "open"}, browserStep{"do": "sign in", "token": token}, screenshot(t, "judge", nil),
		browserStep{"do": "expand"},
		screenshot(t, "judge-narrow", browserStep{"width": 360}), browserStep{"do": "approve", "for": "this execution"})
	form, all, done := saw[1], saw[3], saw[5]
	for _, want := range []string{"1,000 contacts; the first 10:", "… 990 more", `"c9@example.com"`, "Not all is shown above",
		"The code that asks", "people[999]", "with ANY arguments", `adds the rule {tool: "crm.upsert_many", decision: allow}`} {
		if !strings.Contains(form.Text, want) {
			t.Errorf("no %q in %s", want, form.Text)
		}
	}
	if strings.Contains(form.Text, "c10@example.com") || !strings.Contains(all.Values, "c998@example.com") || !strings.Contains(all.Values,
		strings.Repeat("<i>", 500)) {
		t.Errorf("all of it is %s", all.Values)
	}
	if done.Status != 200 || !strings.Contains(done.Text, "Approved at") || !strings.Contains(done.Text,
		"It also allows every other call") {
		t.Errorf("approved: %+v", done)
	}
	if got := v.toolText("resume_execution", fmt.Sprintf(`{"execution_id":%q}`, run)); !strings.Contains(got, `\"result\":1001`) {
		t.Errorf("the second call was not allowed: %s", got)
	}
}

// screenshot returns a step that writes a picture to the directory SCREENSHOTS, if it is set.
func screenshot(t *testing.T, name string, more browserStep) browserStep {
	dir := os.Getenv("SCREENSHOTS")
	if dir == "" {
		dir = t.TempDir()
	}
	step := browserStep{"do": "screenshot", "file": filepath.Join(dir, name+".png")}
	for key, value := range more {
		step[key] = value
	}
	return step
}
