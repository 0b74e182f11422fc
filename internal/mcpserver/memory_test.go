package mcpserver_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/access"
	"github.com/sandpiper-mcp/sandpiper/internal/execution"
	"github.com/sandpiper-mcp/sandpiper/internal/longtest"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver/builtin"
	"github.com/sandpiper-mcp/sandpiper/internal/memory"
	"github.com/sandpiper-mcp/sandpiper/internal/sandbox/fake"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

// Two requests of nearly the largest size of one tenant are served at a time.
func TestTwoLargeRequestsOfTenant(t *testing.T) {
	longtest.SkipSlow(t)
	budget := memory.New(memory.Config{Total: 1 << 30})
	s := newServerOf(t, filepath.Join(t.TempDir(), "data"), mcpserver.Config{Profile: builtin.Standard, Memory: budget},
		execution.Config{Backend: compiling{fake.New(fake.Config{})}})
	web := httptest.NewServer(s.HTTP(mcpserver.HTTPConfig{Verify: func(context.Context, access.Credentials) (access.Identity, error) {
		id, err := tenant.Parse("alice")
		return access.Identity{Tenant: id, Scopes: access.Scopes}, err
	}}))
	t.Cleanup(web.Close)
	content := strings.Repeat("0123456789abcde\\n", 30<<20/17)
	write := func(name string) string {
		body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"write_workspace_file","arguments":{"filename":"` + name +
			`","content":"` + content + `"},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"}}}}`
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, web.URL, strings.NewReader(body))
		for k, v := range map[string]string{"Authorization": "Bearer alice", "Content-Type": "application/json",
			"Accept":               "application/json, text/event-stream",
			"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "write_workspace_file"} {
			req.Header.Set(k, v)
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			return err.Error()
		}
		defer res.Body.Close()
		text, _ := io.ReadAll(res.Body)
		return fmt.Sprintf("%d %s", res.StatusCode, text)
	}
	var all sync.WaitGroup
	for i := range 2 {
		all.Go(func() {
			if a := write(fmt.Sprint("file", i)); !strings.HasPrefix(a, "200 ") || strings.Contains(a, `"isError":true`) {
				t.Errorf("%.600s", a)
			}
		})
	}
	all.Wait()
	if _, all := budget.Used("alice"); all != 0 {
		t.Errorf("%d bytes are left", all)
	}
}

// Files that are read count: their answers wait until the tenant's memory has room for them.
func TestReadFilesAreCounted(t *testing.T) {
	for name, line := range map[string]string{
		"a page":     `"method":"tools/call","params":{"name":"read_workspace_file","arguments":{"filename":"large","limit":1048576}}`,
		"a resource": `"method":"resources/read","params":{"uri":"workspace://large"}`,
	} {
		t.Run(name, func(t *testing.T) {
			var watched atomic.Bool
			counts, answered := make(chan struct{}, 64), make(chan struct{})
			budget := memory.New(memory.Config{Total: 1 << 30, PerOwner: 8 << 20, Limit: func(string) int64 {
				if watched.Load() {
					counts <- struct{}{}
				}
				return 0
			}})
			s := newServerOf(t, filepath.Join(t.TempDir(), "data"), mcpserver.Config{Profile: builtin.Standard, Memory: budget},
				execution.Config{Backend: compiling{fake.New(fake.Config{})}})
			p := connect(t, s)
			p.write("large", strings.Repeat("0123456789abcde\n", 1<<20/16))
			other := budget.Open("local")
			if err := other.Grow(t.Context(), 9<<20); err != nil { // the one share that may exceed the limit
				t.Fatal(err)
			}
			watched.Store(true)
			p.send(`{"jsonrpc":"2.0","id":1,` + line + `}`)
			go func() { defer close(answered); p.receive() }()
			select {
			case <-counts:
			case <-answered:
				t.Error("the file was read without memory for it")
			}
			other.Release()
			<-answered
			if one, _ := budget.Used("local"); one > 8<<20 {
				t.Errorf("%d bytes are held", one)
			}
		})
	}
}
