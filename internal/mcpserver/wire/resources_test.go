package wire

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/logtest"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
)

// stock serves resources from memory: texts by caller and URI. URIs begin with "s:".
type stock struct {
	mu    sync.Mutex
	texts map[string]string
	calls int
}

func newStock() *stock { return &stock{texts: map[string]string{}} }

func (s *stock) put(caller, uri, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.texts[caller+" "+uri] = text
}

// versionCalls returns the number of calls of Versions since its last call.
func (s *stock) versionCalls() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.calls
	s.calls = 0
	return n
}

func (s *stock) resources() *Resources {
	return &Resources{
		Templates: []Template{{URI: "s:{name}", Name: "stock"}},
		List: func(ctx context.Context, caller, cursor string) (redact.Redacted, error) {
			return gate.Redact(ctx, Listing{Resources: []Resource{{URI: "s:" + cursor, Name: caller}}, Next: cursor + "1"})
		},
		Read: func(ctx context.Context, caller, uri string) (redact.Redacted, error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			text, ok := s.texts[caller+" "+uri]
			if !ok {
				reason, err := gate.Redact(ctx, "there is no "+uri)
				return redact.Redacted{}, errors.Join(&Refused{Missing: true, Reason: reason}, err)
			}
			return gate.Redact(ctx, Content{URI: uri, Text: &text})
		},
		Versions: func(ctx context.Context, caller string, uris []string) ([]string, error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.calls++
			var versions []string
			for _, uri := range uris {
				if !strings.HasPrefix(uri, "s:") {
					reason, err := gate.Redact(ctx, uri+" is no URI of ours")
					return nil, errors.Join(&Refused{Reason: reason}, err)
				}
				versions = append(versions, s.texts[caller+" "+uri])
			}
			return versions, nil
		},
	}
}

// subscribe subscribes a client to URIs; id identifies the subscription.
type subscribe func(c *client, id int, uris ...string)

func subscribeOlder(c *client, id int, uris ...string) {
	c.t.Helper()
	for _, uri := range uris {
		c.send(`{"jsonrpc":"2.0","id":%d,"method":"resources/subscribe","params":{"uri":%q}}`, id, uri)
		if a := c.read(); a.Error != nil || string(a.result) != "{}" {
			c.t.Fatalf("subscribe %s: %s", uri, a.raw)
		}
	}
}

func listenTo(c *client, id int, uris ...string) {
	c.t.Helper()
	list, _ := json.Marshal(uris)
	c.send(`{"jsonrpc":"2.0","id":%d,"method":"subscriptions/listen","params":{"notifications":{"resourceSubscriptions":%s},%s}}`, id, list,
		modern)
	want := fmt.Sprintf(`{"_meta":{"io.modelcontextprotocol/subscriptionId":%d},"notifications":{"resourceSubscriptions":%s}}`, id, list)
	if a := c.read(); a.Method != "notifications/subscriptions/acknowledged" || string(a.Params) != want {
		c.t.Fatalf("listen: got %s, want %s", a.raw, want)
	}
}

// versions are the operations of each protocol version: subscribe, end a subscription, and the expected
// notification of a change.
var versions = map[string]struct {
	subscribe    subscribe
	end          func(c *client, id int, uri string)
	notification func(id int, uri string) string
}{
	"2025-11-25": {subscribeOlder,
		func(c *client, _ int, uri string) {
			c.send(`{"jsonrpc":"2.0","id":"u","method":"resources/unsubscribe","params":{"uri":%q}}`, uri)
			if a := c.read(); a.Error != nil {
				c.t.Errorf("unsubscribe: %s", a.raw)
			}
		},
		func(_ int, uri string) string { return fmt.Sprintf(`{"uri":%q}`, uri) },
	},
	"2026-07-28": {listenTo,
		func(c *client, id int, _ string) {
			c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}`, id)
		},
		func(id int, uri string) string {
			return fmt.Sprintf(`{"_meta":{"io.modelcontextprotocol/subscriptionId":%d},"uri":%q}`, id, uri)
		},
	},
}

func inEachVersion(t *testing.T, test func(t *testing.T, c *client, s *stock, version string)) {
	for version := range versions {
		t.Run(version, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStock()
				c := dial(t, Config{Resources: s.resources()})
				if version == "2025-11-25" {
					c.handshake()
				}
				test(t, c, s, version)
			})
		})
	}
}

func TestSubscriberIsNotifiedOfChanges(t *testing.T) {
	inEachVersion(t, func(t *testing.T, c *client, s *stock, version string) {
		e := versions[version]
		e.subscribe(c, 5, "s:a", "s:b")
		for i := range 3 {
			began := time.Now()
			for n := range 100 { // simultaneous changes cause one notification
				s.put("", "s:b", fmt.Sprint(i, n))
			}
			s.put("", "s:c", fmt.Sprint(i)) // without a subscriber
			a := c.read()
			if a.Method != "notifications/resources/updated" || string(a.Params) != e.notification(5, "s:b") {
				t.Errorf("got %s", a.raw)
			}
			if took := time.Since(began); took > time.Second {
				t.Errorf("notified after %v", took)
			}
		}
		s.put("", "s:a", "new")
		s.put("", "s:b", "newer")
		got := []string{string(c.read().Params), string(c.read().Params)}
		slices.Sort(got)
		if want := []string{e.notification(5, "s:a"), e.notification(5, "s:b")}; !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		time.Sleep(10 * time.Second) // nothing changes
		c.send(`{"jsonrpc":"2.0","id":"last","method":"resources/list","params":{%s}}`, modern)
		if a := c.read(); a.ID != "last" {
			t.Errorf("notified again: %s", a.raw)
		}
	})
}

func TestNoPollingWithoutSubscriptions(t *testing.T) {
	inEachVersion(t, func(t *testing.T, c *client, s *stock, version string) {
		time.Sleep(time.Minute)
		if n := s.versionCalls(); n != 0 {
			t.Errorf("%d calls of Versions before the first subscription", n)
		}
		e := versions[version]
		e.subscribe(c, 5, "s:a")
		time.Sleep(10 * time.Second)
		if n := s.versionCalls(); n < 10 {
			t.Errorf("%d calls of Versions in 10 seconds", n)
		}
		e.end(c, 5, "s:a")
		if version == "2026-07-28" {
			c.read() // the result of the subscription
		}
		synctest.Wait()
		s.versionCalls()
		s.put("", "s:a", "new")
		time.Sleep(time.Minute)
		if n := s.versionCalls(); n != 0 {
			t.Errorf("%d calls of Versions after the last unsubscription", n)
		}
		e.subscribe(c, 6, "s:a")
		s.put("", "s:a", "newer")
		if a := c.read(); string(a.Params) != e.notification(6, "s:a") {
			t.Errorf("subscribed again, got %s", a.raw)
		}
	})
}

// synctest.Test does not return if a goroutine is left.
func TestSubscriptionsEndWithTheirConnection(t *testing.T) {
	inEachVersion(t, func(t *testing.T, c *client, s *stock, version string) {
		versions[version].subscribe(c, 5, "s:a", "s:b")
		c.in.Close()
		go func() {
			for c.lines.Scan() {
			}
		}()
		if err := <-c.ended; err != nil {
			t.Errorf("ServeStdio = %v", err)
		}
		s.versionCalls()
		time.Sleep(time.Minute)
		if n := s.versionCalls(); n != 0 {
			t.Errorf("%d calls of Versions after the connection has ended", n)
		}
	})
}

func TestSubscriptionsAreLimitedPerConnection(t *testing.T) {
	inEachVersion(t, func(t *testing.T, c *client, s *stock, version string) {
		var uris []string
		for i := range 100 {
			uris = append(uris, fmt.Sprintf("s:%03d", i))
		}
		e := versions[version]
		e.subscribe(c, 1, uris[:60]...)
		e.subscribe(c, 2, uris[60:]...)
		ask := `{"jsonrpc":"2.0","id":3,"method":"resources/subscribe","params":{"uri":"s:more"}}`
		if version == "2026-07-28" {
			ask = `{"jsonrpc":"2.0","id":3,"method":"subscriptions/listen","params":{"notifications":{"resourceSubscriptions":["s:more"]},` + modern + `}}`
		}
		c.send("%s", ask)
		if a := c.read(); a.Error == nil || a.Error.Code != -32602 || !strings.Contains(a.Error.Message, "100 subscriptions") {
			t.Errorf("one more: %s", a.raw)
		}
		for i := range 100 {
			s.put("", uris[i], "new")
		}
		notified := map[string]bool{}
		for range 100 {
			notified[string(c.read().Params)] = true
		}
		if len(notified) != 100 {
			t.Errorf("%d of 100 resources notified", len(notified))
		}
		e.end(c, 2, uris[99])
		if version == "2026-07-28" {
			c.read()
		}
		e.subscribe(c, 4, "s:more")
	})
}

func TestInvalidURIIsNotSubscribed(t *testing.T) {
	c := dial(t, Config{Resources: newStock().resources()})
	c.handshake()
	c.send(`{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"x:a"}}`)
	if a := c.read(); a.Error == nil || a.Error.Code != -32602 || a.Error.Message != "x:a is no URI of ours" {
		t.Errorf("got %s", a.raw)
	}
}

func TestEmptyResource(t *testing.T) {
	s := newStock()
	s.put("", "s:a", "")
	c := dial(t, Config{Resources: s.resources()})
	c.send(`{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"s:a",%s}}`, modern)
	content := `"ttlMs":0,"cacheScope":"private",%s"contents":[{"uri":"s:a","text":""}]}`
	if a := c.read(); !strings.Contains(a.raw, fmt.Sprintf(content, `"resultType":"complete",`)) {
		t.Errorf("2026-07-28: %s", a.raw)
	}
	c = dial(t, Config{Resources: s.resources()})
	c.handshake()
	c.send(`{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"s:a"}}`)
	if a := c.read(); !strings.Contains(a.raw, fmt.Sprintf(content, "")) {
		t.Errorf("2025-11-25: %s", a.raw)
	}
}

func TestMissingResourceCode(t *testing.T) {
	c := dial(t, Config{Resources: newStock().resources()})
	c.send(`{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"s:a",%s}}`, modern)
	if a := c.read(); a.Error == nil || a.Error.Code != -32602 || a.Error.Message != "there is no s:a" {
		t.Errorf("2026-07-28: %s", a.raw)
	}
	c = dial(t, Config{Resources: newStock().resources()})
	c.handshake()
	c.send(`{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"s:a"}}`)
	if a := c.read(); a.Error == nil || a.Error.Code != -32002 || a.Error.Message != "there is no s:a" {
		t.Errorf("2025-11-25: %s", a.raw)
	}
}

func TestListPages(t *testing.T) {
	c := dial(t, Config{Resources: newStock().resources()})
	c.handshake()
	for _, want := range []struct{ cursor, uri, next string }{{"", "s:", "1"}, {"1", "s:1", "11"}} {
		c.send(`{"jsonrpc":"2.0","id":1,"method":"resources/list","params":{"cursor":%q}}`, want.cursor)
		a := c.read()
		if s := string(a.result); !strings.Contains(s, `"uri":"`+want.uri+`"`) || !strings.Contains(s, `"nextCursor":"`+want.next+`"`) ||
			!strings.Contains(s, `"cacheScope":"private"`) {
			t.Errorf("after %q: %s", want.cursor, a.raw)
		}
	}
}

func TestUnredactedOrFailingResourcesAreRejected(t *testing.T) {
	for name, read := range map[string]func() (redact.Redacted, error){
		"unsealed":        func() (redact.Redacted, error) { return redact.Redacted{}, nil },
		"fails":           func() (redact.Redacted, error) { return redact.Redacted{}, errors.New("secret detail") },
		"panics":          func() (redact.Redacted, error) { panic("secret detail") },
		"unsealed reason": func() (redact.Redacted, error) { return redact.Redacted{}, &Refused{} },
	} {
		t.Run(name, func(t *testing.T) {
			var log logtest.Log
			r := newStock().resources()
			r.List = func(context.Context, string, string) (redact.Redacted, error) { return read() }
			r.Read = func(context.Context, string, string) (redact.Redacted, error) { return read() }
			r.Versions = func(context.Context, string, []string) ([]string, error) {
				_, err := read()
				return []string{""}, err
			}
			c := dial(t, Config{Log: newLog(&log), Resources: r})
			c.handshake()
			for _, method := range []string{"resources/list", "resources/read", "resources/subscribe"} {
				if name == "unsealed" && method == "resources/subscribe" {
					continue // has no content
				}
				c.send(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{"uri":"s:a"}}`, method)
				if a := c.read(); a.Error == nil || a.Error.Code != -32603 || strings.Contains(a.raw, "secret") {
					t.Errorf("%s: %s", method, a.raw)
				}
			}
			if log.String() == "" {
				t.Error("the log is empty")
			}
		})
	}
}

func TestNilResourcesDeclareNothing(t *testing.T) {
	c := dial(t, Config{})
	c.send(hello)
	if a := c.read(); strings.Contains(a.raw, `"resources"`) {
		t.Errorf("got %s", a.raw)
	}
}
