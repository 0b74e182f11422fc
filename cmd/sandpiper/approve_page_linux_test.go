package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/longtest"
)

// browser is a browser without scripts that opens pages of a daemon.
type browser struct {
	t      *testing.T
	client *http.Client
	base   string
}

func (d *daemonProcess) browser() *browser {
	jar, err := cookiejar.New(nil)
	if err != nil {
		d.t.Fatal(err)
	}
	return &browser{d.t, &http.Client{Jar: jar}, "http://" + d.addr}
}

// do sends a request as a page of origin does; nil values mean GET.
func (p *browser) do(path, origin string, form url.Values) (status int, body string, header http.Header) {
	p.t.Helper()
	method, content := http.MethodGet, ""
	if form != nil {
		method, content = http.MethodPost, form.Encode()
	}
	req, err := http.NewRequestWithContext(p.t.Context(), method, p.base+path, strings.NewReader(content))
	if err != nil {
		p.t.Fatal(err)
	}
	if form != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	if origin != "" {
		req.Header.Set("Origin", origin)
	}
	res, err := p.client.Do(req)
	if err != nil {
		p.t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return res.StatusCode, string(b), res.Header
}

func (p *browser) signIn(path, token string) (status int, body string) {
	p.t.Helper()
	status, body, _ = p.do(path+"/login", p.base, url.Values{"token": {token}})
	return status, body
}

var secretField = regexp.MustCompile(`name="secret" value="([^"]+)"`)

func secretOf(t *testing.T, body string) string {
	t.Helper()
	m := secretField.FindStringSubmatch(body)
	if m == nil {
		t.Fatalf("no form in %s", body)
	}
	return m[1]
}

// suspendedCall runs code whose call waits for approval, and returns the ids of both.
func (v *visitor) suspendedCall(email string) (execution, asked string) {
	v.t.Helper()
	return v.suspend(fmt.Sprintf("from servers import crm\ncrm.upsert_contact(email='%s', name='<b>Ada</b>\\u202e')", email))
}

// suspend runs code whose call waits for approval, and returns the ids of both.
func (v *visitor) suspend(code string) (execution, asked string) {
	v.t.Helper()
	args, err := json.Marshal(map[string]string{"code": code})
	if err != nil {
		v.t.Fatal(err)
	}
	text := v.answer(string(args))
	id := regexp.MustCompile(`approval_id\\*":\\*"([0-9a-z]{10})`).FindStringSubmatch(text)
	run := regexp.MustCompile(`exec_[a-z0-9]+`).FindString(text)
	if id == nil || run == "" {
		v.t.Fatalf("not suspended: %s", text)
	}
	return run, id[1]
}

// A person approves a waiting call on the page of the daemon, and another call is denied there.
// Nobody else can: not without a session, from another site, with another scope or as another
// tenant.
func TestPersonApprovesOnThePage(t *testing.T) {
	longtest.SkipSlow(t)
	t.Parallel()
	needSandbox(t)
	tokenA, tokenB := "0123456789-of-acme", "0123456789-of-other"
	record := filepath.Join(t.TempDir(), "record")
	d := startServing(t, "", fmt.Sprintf("http: {tokens: {acme: %s, other: %s}, api_keys: true}\nservers:\n  crm: {command: %s/crm, "+
		"args: [--record, %s]}\n", tokenA, tokenB, exampleServers(t), record))
	v := d.visit("Authorization", "Bearer "+tokenA)
	run, asked := v.suspendedCall("ada@example.com")
	path := "/approve/" + asked

	p := d.browser()
	status, signIn, header := p.do(path, "", nil)
	if status != http.StatusUnauthorized || !strings.Contains(signIn, "Sign in") || strings.Contains(signIn, "crm") ||
		strings.Contains(signIn, "ada@") {
		t.Errorf("without a session: %d %s", status, signIn)
	}
	for name, want := range map[string]string{"Cache-Control": "no-store", "X-Frame-Options": "DENY",
		"Content-Security-Policy": "frame-ancestors 'none'"} {
		if !strings.Contains(header.Get(name), want) {
			t.Errorf("%s is %q", name, header.Get(name))
		}
	}
	if csp := header.Get("Content-Security-Policy"); strings.Contains(csp, "unsafe") || strings.Contains(csp, "script") ||
		strings.Contains(signIn, "<script") {
		t.Errorf("scripts are possible: %s", csp)
	}
	// Without a session the page is the same for each id.
	nonces := regexp.MustCompile(`nonce="[^"]*"`)
	same := func(id string) string {
		_, body, _ := d.browser().do("/approve/"+id, "", nil)
		return nonces.ReplaceAllString(strings.ReplaceAll(body, id, "ID"), "")
	}
	if same(asked) != same("0000000000") {
		t.Error("the page without a session depends on the id")
	}
	if status, body := p.signIn(path, "wrong"); status != http.StatusUnauthorized || !strings.Contains(body, "not valid") {
		t.Errorf("a wrong token: %d %s", status, body)
	}
	if status, _, _ := p.do(path+"/login", "https://evil.example", url.Values{"token": {tokenB}}); status != http.StatusForbidden {
		t.Errorf("a login from another site: %d", status)
	}

	other := d.browser()
	status, foreign := other.signIn(path, tokenB)
	_, unknown, _ := other.do("/approve/0000000000", "", nil)
	if status != http.StatusNotFound || nonces.ReplaceAllString(strings.ReplaceAll(foreign, asked, "0000000000"),
		"") != nonces.ReplaceAllString(unknown, "") {
		t.Errorf("another tenant: %d %s\n%s", status, foreign, unknown)
	}
	if out := d.command(t, "tenant", "list"); strings.Contains(out, "other") {
		t.Errorf("the page created a tenant: %s", out)
	}

	key := strings.TrimSpace(d.command(t, "tenant", "key", "new", "acme", "--scope", "execute"))
	key = regexp.MustCompile(`sandpiper_[a-z0-9_]+`).FindString(key)
	if status, body := d.browser().signIn(path, key); status != http.StatusForbidden || !strings.Contains(body, "does not have the scope") {
		t.Errorf("another scope, key %q: %d %s", key, status, body)
	}

	status, form := p.signIn(path, tokenA)
	for _, want := range []string{"ada@example.com", "upsert_contact", "acme", "&lt;b&gt;Ada&lt;/b&gt;", `\u202e`, "Time left",
		`value="approve">Approve<`, "The code that asks", "crm.upsert_contact(email=&#39;ada@example.com&#39;",
		"<dt>Client</dt><dd>t 1</dd>"} {
		if status != http.StatusOK || !strings.Contains(form, want) {
			t.Errorf("no %q: %d %s", want, status, form)
		}
	}
	secret := secretOf(t, form)
	for name, try := range map[string]struct {
		p      *browser
		origin string
		form   url.Values
		status int
	}{
		"another site":    {p, "https://evil.example", url.Values{"decision": {"approve"}, "secret": {secret}}, http.StatusForbidden},
		"no secret":       {p, p.base, url.Values{"decision": {"approve"}}, http.StatusForbidden},
		"wrong secret":    {p, p.base, url.Values{"decision": {"approve"}, "secret": {"x"}}, http.StatusForbidden},
		"no decision":     {p, p.base, url.Values{"secret": {secret}}, http.StatusBadRequest},
		"no such scope":   {p, p.base, url.Values{"decision": {"approve"}, "secret": {secret}, "for": {"ever"}}, http.StatusBadRequest},
		"not offered":     {p, p.base, url.Values{"decision": {"approve"}, "secret": {secret}, "for": {"session"}}, http.StatusBadRequest},
		"no session":      {d.browser(), p.base, url.Values{"decision": {"approve"}, "secret": {secret}}, http.StatusUnauthorized},
		"another session": {other, p.base, url.Values{"decision": {"approve"}, "secret": {secret}}, http.StatusForbidden},
		"in the address":  {p, p.base, url.Values{"x": {"y"}}, http.StatusForbidden},
		"large": {p, p.base, url.Values{"decision": {"approve"}, "secret": {secret}, "reason": {strings.Repeat("x", 1<<20)}},
			http.StatusForbidden},
	} {
		if status, body, _ := try.p.do(path, try.origin, try.form); status != try.status {
			t.Errorf("%s: %d %s", name, status, body)
		}
	}
	if out := d.command(t, "approvals", "list", "--tenant", "acme"); !strings.Contains(out, asked) {
		t.Fatalf("an attack answered: %s", out)
	}
	status, done, _ := p.do(path, p.base, url.Values{"decision": {"approve"}, "secret": {secret}})
	if status != http.StatusOK || !strings.Contains(done, "Approved at") || !strings.Contains(done, "by the web page") ||
		strings.Contains(done, `value="approve"`) {
		t.Errorf("approved: %d %s", status, done)
	}
	if status, body, _ := p.do(path, p.base, url.Values{"decision": {"deny"}, "secret": {secret}}); status != http.StatusForbidden ||
		!strings.Contains(body, "answered already") {
		t.Errorf("a second answer: %d %s", status, body)
	}
	if got := v.toolText("resume_execution", fmt.Sprintf(`{"execution_id":%q}`, run)); !strings.Contains(got, `\"success\":true`) {
		t.Errorf("resumed: %s", got)
	}

	run, asked = v.suspendedCall("grace@example.com")
	_, form, _ = p.do("/approve/"+asked, "https://chat.example", nil) // by a link elsewhere
	p.do("/approve/"+asked, p.base, url.Values{"decision": {"deny"}, "reason": {"not her"}, "secret": {secretOf(t, form)}})
	if got := v.toolText("resume_execution", fmt.Sprintf(`{"execution_id":%q}`, run)); !strings.Contains(got,
		"the user declined: not her") {
		t.Errorf("denied: %s", got)
	}
	out := d.command(t, "audit", "tail", "-n", "50")
	for _, want := range []string{"crm.upsert_contact approved at the web page by", "crm.upsert_contact denied at the web page by"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in the audit log:\n%s", want, out)
		}
	}
	if _, body, _ := p.do("/approve/"+asked+"/logout", p.base, url.Values{}); !strings.Contains(body, "Sign in") {
		t.Errorf("after signing out: %s", body)
	}
}
