package mcpserver_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/access"
	"github.com/sandpiper-mcp/sandpiper/internal/home"
	"github.com/sandpiper-mcp/sandpiper/internal/home/skill"
	"github.com/sandpiper-mcp/sandpiper/internal/longtest"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver/builtin"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/fake"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

// reply is a message of the server about resources.
type reply struct {
	Method string
	Params struct{ URI string }
	Error  struct {
		Code    int
		Message string
	}
	Result struct {
		NextCursor string
		Resources  []struct {
			URI, Name, MIMEType string
			Size                int
		}
		Contents []struct {
			URI, MIMEType, Text string
			Blob                []byte
		}
	}
}

func (r reply) uris() []string {
	var uris []string
	for _, x := range r.Result.Resources {
		uris = append(uris, x.URI)
	}
	return uris
}

// ask calls a method and returns the next message.
func (p *peer) ask(method string, params map[string]string) (r reply) {
	p.t.Helper()
	line, _ := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
	p.send(string(line))
	return p.next()
}

func (p *peer) next() (r reply) {
	p.t.Helper()
	p.receive()
	if err := json.Unmarshal(p.lines.Bytes(), &r); err != nil {
		p.t.Fatalf("%v in %s", err, p.lines.Bytes())
	}
	return r
}

func (p *peer) write(name, content string) {
	p.t.Helper()
	args, _ := json.Marshal(map[string]string{"filename": name, "content": content})
	p.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"write_workspace_file","arguments":` + string(args) + `}}`)
	if h := p.receive(); h.Result.IsError {
		p.t.Fatalf("%s: %+v", name, h)
	}
}

// serverAndFiles returns a server and the directory of its tenant's files.
func serverAndFiles(t *testing.T) (*mcpserver.Server, string) {
	data := filepath.Join(t.TempDir(), "data")
	s := newServerIn(t, data, builtin.Standard, fake.New(fake.Config{}))
	return s, filepath.Join(data, "workspaces", "local")
}

func put(t *testing.T, dir, name string, content []byte) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestResourceListPages(t *testing.T) {
	s, dir := serverAndFiles(t)
	p := connect(t, s)
	var want []string
	p.write("000", "")
	for i := 1; i < 250; i++ {
		put(t, dir, fmt.Sprintf("%03d", i), nil)
	}
	for i := range 250 {
		want = append(want, fmt.Sprintf("workspace://%03d", i))
	}
	first := p.ask("resources/list", nil)
	// The cursor names the last entry of the first page, which is then deleted. A new entry before
	// it is not listed.
	if err := os.Remove(filepath.Join(dir, "099")); err != nil {
		t.Fatal(err)
	}
	put(t, dir, "0500", nil)
	second := p.ask("resources/list", map[string]string{"cursor": first.Result.NextCursor})
	third := p.ask("resources/list", map[string]string{"cursor": second.Result.NextCursor})
	if diff := cmp.Diff(want, slices.Concat(first.uris(), second.uris(), third.uris())); diff != "" {
		t.Error(diff)
	}
	if len(first.uris()) != 100 || len(second.uris()) != 100 || third.Result.NextCursor != "" {
		t.Errorf("pages of %d and %d entries, then the cursor %q", len(first.uris()), len(second.uris()), third.Result.NextCursor)
	}
}

func TestListedResourcesCanBeRead(t *testing.T) {
	s, dir := serverAndFiles(t)
	p := connect(t, s)
	p.write("sub/ä b?#%:@[x].TXT", "text")
	files := map[string]struct {
		mime    string
		content []byte
	}{
		"a.png":               {"image/png", []byte("\x89PNG\r\n\x1a\n\xff")},
		"noext":               {"application/pdf", []byte("%PDF-1.7\n\xff")},
		"bytes":               {"application/octet-stream", []byte{1, 2, 0xff, 0}},
		"words":               {"text/plain", []byte("only words")},
		"data.jsonl":          {"application/jsonl", []byte("{}\n{}\n")},
		"t.parquet":           {"application/vnd.apache.parquet", []byte("PAR1\xff")},
		"sub/ä b?#%:@[x].TXT": {"text/plain", []byte("text")},
	}
	for name, f := range files {
		put(t, dir, name, f.content)
	}
	list := p.ask("resources/list", nil).Result.Resources
	if len(list) != len(files) {
		t.Errorf("listed %d: %+v", len(list), list)
	}
	for _, r := range list {
		f := files[r.Name]
		if r.Size != len(f.content) || r.MIMEType != "" && r.MIMEType != f.mime {
			t.Errorf("listed as %+v", r)
		}
		c := p.ask("resources/read", map[string]string{"uri": r.URI}).Result.Contents
		if len(c) != 1 || c[0].URI != r.URI || c[0].MIMEType != f.mime || c[0].Text+string(c[0].Blob) != string(f.content) {
			t.Errorf("%s reads as %+v", r.URI, c)
		}
	}
}

func TestResourceSizeLimit(t *testing.T) {
	s, dir := serverAndFiles(t)
	p := connect(t, s)
	p.write("a", "")
	put(t, dir, "full", bytes.Repeat([]byte("x"), 4<<20))
	put(t, dir, "over", bytes.Repeat([]byte("x"), 4<<20+1))
	if c := p.ask("resources/read", map[string]string{"uri": "workspace://full"}).Result.Contents; len(c) != 1 || len(c[0].Text) != 4<<20 {
		t.Error("4 MiB were not read")
	}
	r := p.ask("resources/read", map[string]string{"uri": "workspace://over"})
	if r.Error.Code != -32602 || !strings.Contains(r.Error.Message, "read_workspace_file") {
		t.Errorf("one byte more: %+v", r.Error)
	}
}

// overwrite changes a file with a single write, because a second write could cause a second
// notification.
func overwrite(path, content string) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteAt([]byte(content), 0)
	return err
}

func TestSubscriberIsNotifiedOfChanges(t *testing.T) {
	longtest.SkipSlow(t)
	t.Parallel() // each change takes a second
	data := filepath.Join(t.TempDir(), "data")
	s := newServerIn(t, data, builtin.Standard, fake.New(fake.Config{}))
	p, second := connect(t, s), connect(t, s)
	other, err := home.Open(t.Context(), home.Config{Root: data}) // as another process
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { other.Close() })
	home, err := other.Acquire(t.Context(), tenant.Local)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { home.Release(context.Background()) })
	for _, uri := range []string{"workspace://f", "skill://double"} {
		p.ask("resources/subscribe", map[string]string{"uri": uri})
	}
	ctx := t.Context()
	save := func(code string) error {
		_, err := home.Skills.Save(ctx, skill.Draft{Name: "double", Code: code})
		return err
	}
	for _, change := range []struct {
		what, uri string
		do        func() error
	}{
		{"written by another process", "workspace://f", func() error { return home.Workspace.Write(ctx, "f", []byte("1")) }},
		{"written in place", "workspace://f", func() error { return overwrite(filepath.Join(data, "workspaces/local/f"), "2") }},
		{"deleted", "workspace://f", func() error { return home.Workspace.Delete(ctx, "f") }},
		{"written by a tool", "workspace://f", func() error { second.write("f", "3"); return nil }},
		{"skill saved", "skill://double", func() error { return save("def double(x): return 2 * x") }},
		{"skill saved again", "skill://double", func() error { return save("def double(x): return x + x") }},
		{"skill deleted", "skill://double", func() error { return home.Skills.Delete(ctx, "double") }},
	} {
		if err := change.do(); err != nil {
			t.Fatal(err)
		}
		if r := p.next(); r.Method != "notifications/resources/updated" || r.Params.URI != change.uri {
			t.Errorf("%s: got %+v", change.what, r)
		}
	}
}

func TestResourcesAreIsolatedByTenant(t *testing.T) {
	s := newServer(t, builtin.Standard)
	web := httptest.NewServer(s.HTTP(mcpserver.HTTPConfig{Verify: func(_ context.Context, given access.Credentials) (access.Identity,
		error) {
		token := given.Token
		if token != "alice" && token != "bob" {
			return access.Identity{}, access.ErrUnknown
		}
		id, err := tenant.Parse(token)
		return access.Identity{Tenant: id, Scopes: access.Scopes}, err
	}}))
	t.Cleanup(web.Close)
	ask := func(who, method, name, params string) (r reply, raw string) {
		t.Helper()
		body := `{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":{` + params +
			`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"}}}}`
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, web.URL, strings.NewReader(body))
		for k, v := range map[string]string{"Authorization": "Bearer " + who, "Content-Type": "application/json",
			"Accept":               "application/json, text/event-stream",
			"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": method, "Mcp-Name": name} {
			req.Header.Set(k, v)
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		all, _ := io.ReadAll(res.Body)
		data := string(all) // or an event
		if _, event, ok := strings.Cut(data, "data: "); ok {
			data = event
		}
		if err := json.Unmarshal([]byte(data), &r); err != nil {
			t.Fatalf("%s: %v in %s", res.Status, err, all)
		}
		return r, data
	}
	ask("alice", "tools/call", "write_workspace_file", `"name":"write_workspace_file","arguments":{"filename":"secret","content":"of `+
		`alice"},`)
	ask("alice", "tools/call", "save_skill", `"name":"save_skill","arguments":{"name":"hers","code":"x = 1"},`)
	if r, _ := ask("alice", "resources/list", "", ""); len(r.uris()) != 3 { // a skill has two
		t.Errorf("alice lists %q", r.uris())
	}
	if r, _ := ask("bob", "resources/list", "", ""); len(r.uris()) != 0 {
		t.Errorf("bob lists %q", r.uris())
	}
	for _, uri := range []string{"workspace://secret", "skill://hers", "workspace://skills/hers.py", "workspace://../alice/secret"} {
		if r, raw := ask("alice", "resources/read", uri, `"uri":"`+uri+`",`); len(r.Result.Contents) != 1 && !strings.Contains(uri, "..") {
			t.Errorf("alice reads %s", raw)
		}
		if r, raw := ask("bob", "resources/read", uri, `"uri":"`+uri+`",`); r.Error.Code != -32602 || strings.Contains(raw, "of alice") {
			t.Errorf("bob reads %s", raw)
		}
	}
}
