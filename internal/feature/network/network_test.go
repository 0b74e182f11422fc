package network_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/feature/network"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream/spool"
)

// answer is the structured content of a result.
type answer struct {
	Status  int
	URL     string
	Headers [][2]string
	Text    string
	File    json.RawMessage
}

func newRules(t testing.TB, all ...network.Rule) *network.Rules {
	t.Helper()
	r, err := network.NewRules(all)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func newClient(t testing.TB, cfg network.Config) *network.Client {
	c := network.New(cfg)
	t.Cleanup(c.Close)
	return c
}

// resolveTo returns a resolver that gives each answer once, and then the last one.
func resolveTo(answers ...string) func(context.Context, string) ([]netip.Addr, error) {
	var next atomic.Int64
	return func(context.Context, string) (all []netip.Addr, err error) {
		for _, a := range strings.Split(answers[min(int(next.Add(1)), len(answers))-1], ",") {
			all = append(all, netip.MustParseAddr(a))
		}
		return all, nil
	}
}

func send(t testing.TB, c *network.Client, method string, args map[string]any) (answer, tool.Result, error) {
	t.Helper()
	raw, err := json.Marshal(args)
	if err != nil {
		t.Fatal(err)
	}
	res, err := c.Call(t.Context(), tool.Call{Ref: tool.Ref{Server: network.ServerName, Tool: method}, Args: raw, Execution: "e1"})
	var a answer
	if err == nil {
		if err := json.Unmarshal(res.Structured, &a); err != nil {
			t.Fatal(err)
		}
	}
	return a, res, err
}

// site serves h on loopback, and returns a rule that allows it.
func site(t testing.TB, h http.HandlerFunc) (at string, allowed network.Rule) {
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	u, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(u.Port())
	if err != nil {
		t.Fatal(err)
	}
	return s.URL, network.Rule{Host: "127.0.0.1", Scheme: "http", Port: port, Methods: []string{"*"}}
}

func refusedBy(t testing.TB, err error, rule string) {
	t.Helper()
	f, ok := errors.AsType[*tool.Failure](err)
	if !ok || f.Refused != "network:"+rule {
		t.Errorf("got %v, want a refusal by network:%s", err, rule)
	}
}

// Each address is refused, however it is written, unless a rule lists it.
func TestAddressesThatAreNotPublicAreRefused(t *testing.T) {
	for _, a := range []string{
		"127.0.0.1", "127.8.9.10", "0.0.0.0", "10.1.2.3", "100.64.0.1", "169.254.169.254", "172.16.0.1", "192.168.1.1", "192.0.0.170",
		"198.18.0.1",
		"224.0.0.1", "255.255.255.255", "240.0.0.1", "192.0.2.1", "::1", "::", "::ffff:127.0.0.1", "::ffff:169.254.169.254", "::127.0.0.1",
		"fe80::1", "fc00::1",
		"fd00:ec2::254", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::7f00:1", "2002:7f00:1::", "2001::7f00:1", "2001:db8::1",
		"ff02::1", "fec0::1",
		"93.184.215.14,127.0.0.1", "2606:4700::1111,::1", // one of several
	} {
		t.Run(a, func(t *testing.T) {
			c := newClient(t, network.Config{Rules: newRules(t, network.Rule{Host: "*"}), Lookup: resolveTo(a)})
			_, _, err := send(t, c, "get", map[string]any{"url": "https://innocent.example/"})
			refusedBy(t, err, "address")
			if strings.Contains(a, ",") {
				return
			}
			host := a
			if strings.Contains(a, ":") {
				host = "[" + a + "]"
			}
			_, _, err = send(t, c, "get", map[string]any{"url": "https://" + host + "/"})
			refusedBy(t, err, "address")
		})
	}
}

func TestURLsAreRefused(t *testing.T) {
	c := newClient(t, network.Config{Rules: newRules(t,
		network.Rule{Host: "api.example.com", Paths: []string{"/v1/*"}},
		network.Rule{Host: "*.parts.example.com"}), Lookup: resolveTo("127.0.0.1")})
	for u, rule := range map[string]string{
		"https://2130706433/":                               "url",
		"https://0x7f000001/":                               "url",
		"https://0177.0.0.1/":                               "url",
		"https://127.1/":                                    "url",
		"https://0x7f.1/":                                   "url",
		"https://127.0.0.0x1/":                              "url",
		"https://127.0.0.1/":                                "allow",
		"https://[::ffff:127.0.0.1]/":                       "allow",
		"https://[fe80::1%25eth0]/":                         "url",
		"https://localhost/":                                "allow",
		"https://evil.example/":                             "allow",
		"https://api.example.com.evil.example/v1/x":         "allow",
		"https://evil.example#api.example.com/v1/x":         "allow",
		"https://api.example.com@evil.example/v1/x":         "url",
		"https://evil.example\\@api.example.com/v1/x":       "url",
		"https://api.example.com:443@evil.example/v1/x":     "url",
		"https://api.example.com:8443/v1/x":                 "allow",
		"https://api.example.com:99999/v1/x":                "url",
		"http://api.example.com/v1/x":                       "allow",
		"https://api.example.com/admin":                     "allow",
		"https://api.example.com/v1/../admin":               "url",
		"https://api.example.com/v1/%2e%2e/admin":           "url",
		"https://api.example.com/v1/..%2fadmin":             "url",
		"https://api.example.com/v1/..%5cadmin":             "url",
		"https://api.example.com/v1/..;/x":                  "url",
		"https://api.example.com/v1/..;a=b/x":               "url",
		"https://api.example.com/v1/.;/x":                   "url",
		"https://api.example.com/v1/..%3b/x":                "url",
		"https://api.example.com/v1/%2e%2e;x/y":             "url",
		"https://api.example.com/v1/%252e%252e/x":           "url",
		"https://api.example.com/v1/%252e./x":               "url",
		"https://api.example.com/v1/..%252fx":               "url",
		"https://api.example.com/v1/..%255cx":               "url",
		"https://api.example.com/v1/%25252e%25252e/x":       "url",
		"https://api.example.com/v1/%2525252525252e/x":      "url",
		"https://api.example.com/v1/a%zz%252e%252e/x":       "url",
		"https://api.example.com/v1/%25zz/%252e%252e/x":     "url",
		"https://api.example.com/v1/%25u002e%25u002e/x":     "url",
		"https://api.example.com/v1/%c0%ae%c0%ae/x":         "url",
		"https://api.example.com/v1/%25c0%25ae./x":          "url",
		"https://api.example.com/v1/..%c0%afx":              "url",
		"https://api.example.com/v1/%ef%bc%8e%ef%bc%8e/x":   "url",
		"https://api.example.com/v1/..%00/x":                "url",
		"https://api.example.com/v1/..%00.txt":              "url",
		"https://api.example.com/v1/..%09/x":                "url",
		"https://api.example.com/v1/%20../x":                "url",
		"https://api.example.com/v1/..%3f/x":                "url",
		"https://api.example.com/%76%31/x":                  "allow",
		"https://parts.example.com/":                        "allow",
		"https://xparts.example.com/":                       "allow",
		"file:///etc/passwd":                                "url",
		"gopher://api.example.com/":                         "url",
		"ftp://api.example.com/v1/":                         "url",
		"//api.example.com/v1/":                             "url",
		"https:api.example.com/v1/":                         "url",
		"https:///v1/":                                      "url",
		"https://api.example.com/v1/\r\nHost: evil.example": "url",
		"https://api.example.com\r\nHost: evil.example/v1/": "url",
		"https://api.example.com%00.evil.example/v1/":       "url",
		"https://api.example.com%2eevil.example/v1/":        "url",
		"https://ⓐpi.example.com.evil.example/v1/":          "allow",
		"": "url",
		"https://" + strings.Repeat("a.", 200) + "example/v1": "url",
	} {
		_, _, err := send(t, c, "get", map[string]any{"url": u})
		if f, ok := errors.AsType[*tool.Failure](err); !ok || f.Refused != "network:"+rule {
			t.Errorf("%q: got %v, want a refusal by network:%s", u, err, rule)
		}
	}
	for _, u := range []string{"https://API.Example.com./v1/x", "https://a.parts.example.com:443/", "https://ａpi.example.com/v1/x",
		// allowed, and refused by their address
		"https://api.example.com/v1/...", "https://api.example.com/v1/..a/.b", "https://api.example.com/v1/a;b=..",
		"https://api.example.com/v1/100%25", "https://api.example.com/v1/x?a=../..%252e"} {
		_, _, err := send(t, c, "get", map[string]any{"url": u})
		refusedBy(t, err, "address")
	}
	_, _, err := send(t, c, "post", map[string]any{"url": "https://api.example.com/v1/x"})
	refusedBy(t, err, "allow")
}

func TestHeadersAreRefused(t *testing.T) {
	at, allowed := site(t, func(w http.ResponseWriter, r *http.Request) { t.Error("the request was sent") })
	allowed.Secret = &network.Secret{Header: "X-Key", Value: "secret"}
	c := newClient(t, network.Config{Rules: newRules(t, allowed)})
	for name, value := range map[string]string{
		"X-A":                    "1\r\nX-B: 2",
		"X-A\r\nX-B":             "1",
		"X-N":                    "a\nb",
		"X-Z":                    "a\x00b",
		"X Y":                    "1",
		"Host":                   "metadata.internal",
		"host":                   "evil.example",
		"Transfer-Encoding":      "chunked",
		"transfer-encoding":      "identity, chunked",
		"TE":                     "trailers",
		"Trailer":                "X",
		"Upgrade":                "websocket",
		"Proxy-Authorization":    "x",
		"Transfer_Encoding":      "chunked",
		"Content_Length":         "1",
		"content.length":         "1",
		"X-HTTP-Method-Override": "DELETE",
		"x-http-method":          "DELETE",
		"X_METHOD_OVERRIDE":      "DELETE",
		"X-Original-URL":         "/admin",
		"X_Original_URL":         "/admin",
		"X-Rewrite-Url":          "/admin",
		"X-Forwarded-For":        "127.0.0.1",
		"X-Forwarded-Host":       "evil.example",
		"x_forwarded-prefix":     "/admin",
		"X.Forwarded.Proto":      "http",
		"Forwarded":              "for=127.0.0.1",
		"X-Real-IP":              "127.0.0.1",
		"X_Key":                  "mine",
		"x.key":                  "mine",
		"X-Long":                 strings.Repeat("a", 70_000),
	} {
		_, _, err := send(t, c, "post", map[string]any{"url": at, "headers": map[string]string{name: value},
			"text": "GET / HTTP/1.1\r\n\r\n"})
		if f, ok := errors.AsType[*tool.Failure](err); !ok || f.Refused != "network:headers" {
			t.Errorf("%q: %.60q: got %v, want a refusal", name, value, err)
		}
	}
}

// The resolver gives a public address when the request is checked by someone, and loopback later:
// only the answer with which the connection is made counts.
func TestRebindingIsRefused(t *testing.T) {
	_, allowed := site(t, func(w http.ResponseWriter, r *http.Request) { t.Error("the request was sent") })
	allowed.Host = "rebind.example"
	lookup := resolveTo("93.184.215.14", "127.0.0.1")
	_, _ = lookup(t.Context(), "")
	c := newClient(t, network.Config{Rules: newRules(t, allowed), Lookup: lookup})
	for range 3 {
		_, _, err := send(t, c, "get", map[string]any{"url": fmt.Sprintf("http://rebind.example:%d/", allowed.Port)})
		refusedBy(t, err, "address")
	}
}

// The name of an allowed host is resolved once for a connection, also if the second answer is another.
func TestANameIsResolvedOnceForAConnection(t *testing.T) {
	_, allowed := site(t, func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.Host) })
	allowed.Host, allowed.Addresses = "home.example", []string{"127.0.0.0/8"}
	c := newClient(t, network.Config{Rules: newRules(t, allowed), Lookup: resolveTo("127.0.0.1", "10.0.0.1")})
	for range 3 {
		a, _, err := send(t, c, "get", map[string]any{"url": fmt.Sprintf("http://home.example:%d/", allowed.Port)})
		if err != nil || a.Text != fmt.Sprintf("home.example:%d", allowed.Port) {
			t.Fatalf("got %q, %v", a.Text, err)
		}
	}
}

// A listed address is for its host and port only.
func TestAddressesAreListedForAHost(t *testing.T) {
	rules := newRules(t, network.Rule{Host: "home.example", Port: 8443, Addresses: []string{"127.0.0.1"}}, network.Rule{Host: "*"})
	c := newClient(t, network.Config{Rules: rules, Lookup: resolveTo("127.0.0.1")})
	for _, url := range []string{"https://other.example/", "https://home.example/"} {
		_, _, err := send(t, c, "get", map[string]any{"url": url})
		refusedBy(t, err, "address")
	}
}

// A request that another rule allows does not reach the addresses that the rule of its host lists,
// nor a connection to one.
func TestOnlyTheAddressesOfTheAllowingRuleCount(t *testing.T) {
	var got []string
	_, home := site(t, func(w http.ResponseWriter, r *http.Request) { got = append(got, r.Method+" "+r.URL.Path) })
	home.Host, home.Methods, home.Paths, home.Addresses = "home.example", []string{"GET"}, []string{"/v1/*"}, []string{"127.0.0.0/8"}
	every := network.Rule{Host: "*", Scheme: home.Scheme, Port: home.Port, Methods: []string{"*"}}
	own := network.Rule{Host: "127.0.0.1", Scheme: home.Scheme, Port: home.Port, Paths: []string{"/v1/*"}}
	for _, rules := range [][]network.Rule{{home, own, every}, {own, home, every}} {
		got = nil
		c := newClient(t, network.Config{Rules: newRules(t, rules...), Lookup: resolveTo("127.0.0.1")})
		for range 2 { // the second time there is an idle connection
			for _, host := range []string{"home.example", "127.0.0.1"} {
				at := fmt.Sprintf("http://%s:%d", host, home.Port)
				if a, _, err := send(t, c, "get", map[string]any{"url": at + "/v1/x"}); err != nil || a.Status != 200 {
					t.Errorf("%s: %v", host, err)
				}
				_, _, err := send(t, c, "get", map[string]any{"url": at + "/admin"})
				refusedBy(t, err, "address")
				_, _, err = send(t, c, "post", map[string]any{"url": at + "/v1/x"})
				refusedBy(t, err, "address")
			}
		}
		if strings.Join(got, ", ") != "GET /v1/x, GET /v1/x, GET /v1/x, GET /v1/x" {
			t.Errorf("the site got %q", got)
		}
	}
}

func TestOddStatusesAreErrors(t *testing.T) {
	for _, status := range []string{"101 Switching Protocols", "099 Early", "600 Odd", "999 Denied", "000 None"} {
		at, allowed := site(t, func(w http.ResponseWriter, r *http.Request) {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			fmt.Fprintf(conn, "HTTP/1.1 %s\r\nConnection: Upgrade\r\nUpgrade: raw\r\nContent-Length: 2\r\n\r\nok", status)
		})
		c := newClient(t, network.Config{Rules: newRules(t, allowed)})
		for method, unknown := range map[string]bool{"get": false, "post": true} {
			a, _, err := send(t, c, method, map[string]any{"url": at})
			if f, ok := errors.AsType[*tool.Failure](err); !ok || f.Unknown != unknown {
				t.Errorf("%s: %s: got %+v, %v", status, method, a, err)
			}
		}
	}
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	at, allowed := site(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://169.254.169.254/latest/meta-data/", http.StatusFound)
	})
	c := newClient(t, network.Config{Rules: newRules(t, allowed)})
	a, _, err := send(t, c, "get", map[string]any{"url": at})
	if err != nil || a.Status != 302 {
		t.Fatalf("got %d, %v", a.Status, err)
	}
	_, _, err = send(t, c, "get", map[string]any{"url": "http://169.254.169.254/latest/meta-data/"})
	refusedBy(t, err, "allow")
}

// A secret is sent to the host of its rule only, and replaces what the code sends.
func TestSecretsAreAdded(t *testing.T) {
	echo := func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.Header.Get("Authorization")) }
	at, allowed := site(t, echo)
	other, plain := site(t, echo)
	allowed.Secret = &network.Secret{Header: "Authorization", Value: "Bearer ${KEY}"}
	c := newClient(t, network.Config{Rules: newRules(t, allowed, plain),
		Resolve: func(_ context.Context, header, value string) (string, error) {
			return strings.ReplaceAll(value, "${KEY}", header+"-secret"), nil
		}})
	a, _, err := send(t, c, "get", map[string]any{"url": at, "headers": map[string]string{"authorization": "mine"}})
	if err != nil || a.Text != "Bearer Authorization-secret" {
		t.Errorf("got %q, %v", a.Text, err)
	}
	if a, _, err = send(t, c, "get", map[string]any{"url": other}); err != nil || a.Text != "" {
		t.Errorf("got %q, %v", a.Text, err)
	}
}

func TestBodies(t *testing.T) {
	at, allowed := site(t, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		w.Header().Set("X-Length", strconv.FormatInt(r.ContentLength, 10))
		w.Header().Set("X-Type", r.Header.Get("Content-Type"))
		_, _ = w.Write(b)
	})
	c := newClient(t, network.Config{Rules: newRules(t, allowed)})
	for _, x := range []struct {
		arg, kind, length, got string
		value                  any
	}{
		{"json", "application/json", "9", `{"a":[1]}`, map[string]any{"a": []int{1}}},
		{"text", "", "3", "añ", "añ"},
		{"base64", "", "2", "\xff\x00", base64.StdEncoding.EncodeToString([]byte("\xff\x00"))},
	} {
		a, res, err := send(t, c, "put", map[string]any{"url": at, x.arg: x.value})
		got := a.Text
		if len(res.Parts) > 0 {
			got = string(res.Parts[0].Data)
		}
		header := map[string]string{}
		for _, h := range a.Headers {
			header[h[0]] = h[1]
		}
		if err != nil || got != x.got || header["X-Length"] != x.length || header["X-Type"] != x.kind {
			t.Errorf("%s: got %q, %v, %v", x.arg, got, header, err)
		}
	}
	_, _, err := send(t, c, "put", map[string]any{"url": at, "text": "a", "json": 1})
	refusedBy(t, err, "arguments")
}

func bomb(t *testing.T, size int) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := io.CopyN(z, zeros{}, int64(size)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func TestCompressedBodiesAreBounded(t *testing.T) {
	small, large := bomb(t, 1000), bomb(t, 300<<20)
	at, allowed := site(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		if r.URL.Path == "/small" {
			_, _ = w.Write(small)
			return
		}
		_, _ = w.Write(large)
	})
	c := newClient(t, network.Config{Rules: newRules(t, allowed), Spool: &spool.Spool{Dir: t.TempDir(), Max: 1 << 30}})
	if a, _, err := send(t, c, "get", map[string]any{"url": at + "/small"}); err != nil || len(a.Text) != 1000 {
		t.Errorf("got %d bytes, %v", len(a.Text), err)
	}
	if _, _, err := send(t, c, "get", map[string]any{"url": at}); err == nil || !strings.Contains(err.Error(), "more than 33554432 bytes") {
		t.Errorf("got %v", err)
	}
	raw, _ := json.Marshal(map[string]any{"url": at})
	_, err := c.Call(t.Context(), tool.Call{Ref: tool.Ref{Server: network.ServerName, Tool: "get"}, Args: raw,
		Store: func(_ context.Context, content []byte) (json.RawMessage, error) { t.Error("stored"); return nil, nil }})
	if err == nil || !strings.Contains(err.Error(), "more than 268435456 bytes") {
		t.Errorf("got %v", err)
	}
}

func TestLargeBodiesAreStored(t *testing.T) {
	at, allowed := site(t, func(w http.ResponseWriter, r *http.Request) { _, _ = io.CopyN(w, zeros{}, 20<<20) })
	c := newClient(t, network.Config{Rules: newRules(t, allowed), Spool: &spool.Spool{Dir: t.TempDir(), Max: 1 << 30}})
	raw, _ := json.Marshal(map[string]any{"url": at})
	stored := 0
	res, err := c.Call(t.Context(), tool.Call{Ref: tool.Ref{Server: network.ServerName, Tool: "get"}, Args: raw,
		Store: func(_ context.Context, content []byte) (json.RawMessage, error) {
			stored = len(content)
			return json.RawMessage(`{"path":"/workspace/x"}`), nil
		}})
	if err != nil || stored != 20<<20 || !strings.Contains(string(res.Structured), `"file":{"path":"/workspace/x"}`) {
		t.Errorf("stored %d, %s, %v", stored, res.Structured, err)
	}
}

// A body that arrives slowly, or headers that never end, are bounded in time and bytes.
func TestSlowAndEndlessResponsesAreBounded(t *testing.T) {
	at, allowed := site(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/headers" {
			w.Header().Set("X-Long", strings.Repeat("a", 300<<10))
			return
		}
		for r.Context().Err() == nil {
			_, _ = io.WriteString(w, ".")
			_ = http.NewResponseController(w).Flush()
			time.Sleep(10 * time.Millisecond)
		}
	})
	c := newClient(t, network.Config{Rules: newRules(t, allowed)})
	began := time.Now()
	_, _, err := send(t, c, "get", map[string]any{"url": at, "timeout": 0.2})
	if f, ok := errors.AsType[*tool.Failure](err); !ok || f.Unknown || string(f.Data) != `{"timeout":true}` ||
		time.Since(began) > 10*time.Second {
		t.Errorf("got %v after %s", err, time.Since(began))
	}
	if _, _, err := send(t, c, "post", map[string]any{"url": at, "timeout": 0.2}); err == nil || !strings.Contains(err.Error(),
		"did not respond completely") {
		t.Errorf("got %v", err)
	} else if f, ok := errors.AsType[*tool.Failure](err); !ok || !f.Unknown {
		t.Errorf("the outcome of a POST is unknown, got %v", err)
	}
	if _, _, err := send(t, c, "get", map[string]any{"url": at + "/headers"}); err == nil {
		t.Error("endless headers were read")
	}
}

// A server that answers one request with two responses does not answer the next request with the second.
func TestResponsesAreNotSmuggled(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				_, _ = conn.Read(make([]byte, 4096))
				_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\naHTTP/1.1 200 OK\r\nContent-Length: "+
					"8\r\n\r\nsmuggled")
				time.Sleep(50 * time.Millisecond)
			}()
		}
	}()
	port := l.Addr().(*net.TCPAddr).Port
	c := newClient(t, network.Config{Rules: newRules(t, network.Rule{Host: "127.0.0.1", Scheme: "http", Port: port})})
	for range 5 {
		if a, _, err := send(t, c, "get", map[string]any{"url": fmt.Sprintf("http://127.0.0.1:%d/", port)}); err == nil && a.Text != "a" {
			t.Errorf("got %q", a.Text)
		}
	}
}

func TestRequestsOfAnExecutionAreBounded(t *testing.T) {
	var served atomic.Int64
	at, allowed := site(t, func(w http.ResponseWriter, r *http.Request) { served.Add(1) })
	c := newClient(t, network.Config{Rules: newRules(t, allowed)})
	var last error
	for range 10_000 {
		_, _, last = send(t, c, "get", map[string]any{"url": at})
	}
	refusedBy(t, last, "requests")
	if served.Load() != 1000 {
		t.Errorf("%d requests were sent", served.Load())
	}
}

// The difference between the two is what rules, checks and the conversion of a response cost.
func BenchmarkRequest(b *testing.B) {
	body := strings.Repeat("x", 1000)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, body) }))
	defer s.Close()
	b.Run("plain", func(b *testing.B) {
		for b.Loop() {
			res, err := http.Get(s.URL)
			if err != nil {
				b.Fatal(err)
			}
			if _, err := io.ReadAll(res.Body); err != nil {
				b.Fatal(err)
			}
			_ = res.Body.Close()
		}
	})
	b.Run("call", func(b *testing.B) {
		port := s.Listener.Addr().(*net.TCPAddr).Port
		c := newClient(b, network.Config{Rules: newRules(b, network.Rule{Host: "127.0.0.1", Scheme: "http", Port: port})})
		raw, err := json.Marshal(map[string]any{"url": s.URL})
		if err != nil {
			b.Fatal(err)
		}
		for b.Loop() {
			if _, err := c.Call(b.Context(), tool.Call{Ref: tool.Ref{Server: network.ServerName, Tool: "get"}, Args: raw}); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func TestCertificatesAreVerified(t *testing.T) {
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "ok") }))
	t.Cleanup(s.Close)
	port := s.Listener.Addr().(*net.TCPAddr).Port
	rules := newRules(t, network.Rule{Host: "127.0.0.1", Port: port},
		network.Rule{Host: "wrong.test", Port: port, Addresses: []string{"127.0.0.1"}})
	c := newClient(t, network.Config{Rules: rules})
	if _, _, err := send(t, c, "get", map[string]any{"url": s.URL}); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("an unknown certificate was accepted: %v", err)
	}
	trusting := newClient(t, network.Config{Rules: rules, RootCAs: s.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs,
		Lookup: resolveTo("127.0.0.1")})
	if a, _, err := send(t, trusting, "get", map[string]any{"url": s.URL}); err != nil || a.Text != "ok" {
		t.Errorf("got %q, %v", a.Text, err)
	}
	if _, _, err := send(t, trusting, "get", map[string]any{"url": fmt.Sprintf("https://wrong.test:%d/", port)}); err == nil ||
		!strings.Contains(err.Error(), "certificate") {
		t.Errorf("a certificate of another host was accepted: %v", err)
	}
}

// Proxies of the environment are not used: they would reach addresses that are refused.
func TestProxiesAreIgnored(t *testing.T) {
	proxy, _ := site(t, func(w http.ResponseWriter, r *http.Request) { t.Error("the proxy was used") })
	t.Setenv("HTTP_PROXY", proxy)
	at, allowed := site(t, func(w http.ResponseWriter, r *http.Request) {})
	allowed.Host, allowed.Addresses = "home.example", []string{"127.0.0.1"}
	c := newClient(t, network.Config{Rules: newRules(t, allowed), Lookup: resolveTo("127.0.0.1")})
	if _, _, err := send(t, c, "get", map[string]any{"url": strings.Replace(at, "127.0.0.1", "home.example", 1)}); err != nil {
		t.Error(err)
	}
}

func TestInvalidRules(t *testing.T) {
	for want, r := range map[string]network.Rule{
		"entry 1 has host \"\"":    {},
		"is not a host name":       {Host: "a b"},
		"is a number":              {Host: "2130706433"},
		"followed by a domain":     {Host: "*.com"},
		"has host \"a.*\"":         {Host: "a.*"},
		"has scheme \"ftp\"":       {Host: "a.example", Scheme: "ftp"},
		"has method \"TRACE\"":     {Host: "a.example", Methods: []string{"TRACE"}},
		"has path \"v1\"":          {Host: "a.example", Paths: []string{"v1"}},
		"has address \"private\"":  {Host: "a.example", Addresses: []string{"private"}},
		"the header \"Host\"":      {Host: "a.example", Secret: &network.Secret{Header: "Host", Value: "x"}},
		"a secret without a value": {Host: "a.example", Secret: &network.Secret{Header: "X-Key"}},
		"a secret for every host":  {Host: "*", Secret: &network.Secret{Header: "X-Key", Value: "${X}"}},
		"has port 70000":           {Host: "a.example", Port: 70000},
	} {
		if _, err := network.NewRules([]network.Rule{r}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: got %v, want %q", r, err, want)
		}
	}
}
