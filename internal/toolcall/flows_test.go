package toolcall_test

import (
	"context"
	"encoding/json"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/policy"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/vault"
	"github.com/sandpiper-mcp/sandpiper/internal/store"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
	"github.com/sandpiper-mcp/sandpiper/internal/toolcall"
)

func vaultOf(t *testing.T, id tenant.ID) *vault.Vault {
	t.Helper()
	dir := t.TempDir()
	db, err := store.Open(t.Context(), filepath.Join(dir, "tenant.db"), []store.Migration{{Number: 1, Name: "vault", SQL: vault.Tables}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	master, err := vault.OpenMaster(t.Context(), "file", dir)
	if err != nil {
		t.Fatal(err)
	}
	return vault.New(vault.Config{DB: db, Tenant: id, Master: master})
}

// Everything that is sent to a server is subject to the same privacy flows, and recorded.
func TestFlowsApplyToEverythingThatIsSent(t *testing.T) {
	scanner, err := detect.New(detect.Config{})
	if err != nil {
		t.Fatal(err)
	}
	var sent []redact.Transfer
	gateOf := func(r *rig, mode redact.Mode) *redact.Gate {
		rules, err := redact.New(redact.Config{Mode: mode, Scanner: scanner, Flows: []redact.Flow{
			{To: "shady.*", Decision: redact.Deny}, {To: "crm.*", Decision: redact.Allow},
		}, Record: func(_ context.Context, c redact.Transfer) error { sent = append(sent, c); return nil }})
		if err != nil {
			t.Fatal(err)
		}
		return rules.For(redact.Owner{Tenant: r.home.ID(), Vault: vaultOf(t, r.home.ID())})
	}
	for _, mode := range []redact.Mode{redact.Egress, redact.Strict} {
		r := policyRig(t, policy.Config{Default: policy.Allow})
		gate := gateOf(r, mode)
		redacted, err := gate.Redact(t.Context(), "ada@example.com")
		if err != nil {
			t.Fatal(err)
		}
		token, _, _, err := redacted.Content()
		if err != nil {
			t.Fatal(err)
		}
		owner := toolcall.Owner{Home: r.home, Gate: gate}
		a := r.stack.Requester(owner, "exec_1", "s1")
		question := func(value string) func(context.Context, tool.Question) (tool.Reply, error) {
			return func(context.Context, tool.Question) (tool.Reply, error) {
				b, err := json.Marshal(map[string]string{"mail": value})
				return tool.Reply{Action: tool.Accept, Content: b}, err
			}
		}
		asks := func(c tool.Call) (tool.Result, error) {
			reply, err := c.Ask(t.Context(), tool.Question{})
			return text(string(reply.Content)), err
		}
		for name, send := range map[string]func(server, value string) (got string, err error){
			"a resource": func(server, value string) (got string, err error) {
				err = a.Resource(t.Context(), server, "mem://"+value+"/x", func(uri string) error { got = uri; return nil })
				return got, err
			},
			"a resource, with escaped brackets": func(server, value string) (got string, err error) {
				err = a.Resource(t.Context(), server, "mem://"+strings.NewReplacer("[", "%5B", "]", "%5d").Replace(value),
					func(uri string) error { got = uri; return nil })
				return got, err
			},
			"an argument of a prompt": func(server, value string) (got string, err error) {
				err = a.Prompt(t.Context(), server, "greet", map[string]string{"to": value},
					func(args map[string]string) error { got = args["to"]; return nil })
				return got, err
			},
			"a completion": func(server, value string) (got string, err error) {
				err = a.Complete(t.Context(), server, "greet", map[string]string{"to": value},
					func(args map[string]string) error { got = args["to"]; return nil })
				return got, err
			},
			"an answer to a question": func(server, value string) (got string, err error) {
				r.answer = asks
				c := call(server, "look", `{}`)
				c.Ask = question(value)
				res, err := r.stack.For(owner).Call(t.Context(), c)
				return res.Text(), err
			},
		} {
			for _, value := range []string{"ada@example.com", token, strings.ReplaceAll("ada@example.com", "@", "%40")} {
				sent = nil
				got, err := send("shady", value)
				if fault.KindOf(err) != fault.Denied || got != "" || len(sent) != 1 || !sent[0].Denied {
					t.Errorf("%s: %s with %s to a denied server: sent %q, %v, recorded %+v", mode, name, value, got, err, sent)
				}
				sent = nil
				got, err = send("crm", value)
				if plain, _ := url.PathUnescape(got); err != nil || !strings.Contains(plain, "ada@example.com") {
					t.Errorf("%s: %s with %s to an allowed server: sent %q, %v", mode, name, value, got, err)
				}
				if len(sent) != 1 || sent[0].Denied || !strings.HasPrefix(sent[0].Destination, "crm.") || !cmp.Equal(sent[0].Types,
					map[string]int{"EMAIL": 1}) ||
					slices.Contains(sent[0].Tokens, token) != (value == token) {
					t.Errorf("%s: %s with %s: recorded %+v", mode, name, value, sent)
				}
			}
		}
		if err := a.Resource(t.Context(), "shady", "mem://nothing", func(string) error { return nil }); err != nil {
			t.Error(err)
		}
	}
}
