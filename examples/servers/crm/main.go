// Command crm is a small MCP server that stores contacts in memory. With --record FILE
// it writes the received arguments of each call as a line of JSON, so that tests can
// check what was sent. It is an example, and a server for the project's tests.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"net/mail"
	"os"
	"strings"
	"sync"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// contact is a stored contact. Its mail address is its key.
type contact struct {
	Email   string `json:"email"`
	Name    string `json:"name,omitempty"`
	Phone   string `json:"phone,omitempty"`
	Address string `json:"address,omitempty"`
	SSN     string `json:"ssn,omitempty"`
	Social  int    `json:"social_security_number,omitempty" jsonschema:"the same as a number"`
	Card    string `json:"card,omitempty"`
	IBAN    string `json:"iban,omitempty"`
	IP      string `json:"last_ip,omitempty"`
	Segment string `json:"segment,omitempty"`
	Notes   string `json:"notes,omitempty"`
}

type contacts struct {
	Contacts []contact `json:"contacts" jsonschema:"at most 1000"`
}

type key struct {
	Email string `json:"email"`
}

type noArguments struct{}

type change struct {
	Created int `json:"created"`
	Updated int `json:"updated"`
}

type total struct {
	Contacts int `json:"contacts"`
}

const maxContacts = 1000

func main() {
	file := flag.String("record", "", "write the arguments of each call to `FILE`, a line of JSON each")
	flag.Parse()
	c := &crm{known: map[string]contact{}, record: io.Discard}
	if *file != "" {
		f, err := os.OpenFile(*file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			log.Fatal(err)
		}
		c.record = f
	}
	if err := c.serve(); err != nil {
		log.Fatal(err)
	}
}

// crm is safe for concurrent use.
type crm struct {
	mu     sync.Mutex
	known  map[string]contact // by mail address, in lower case
	record io.Writer
}

func (c *crm) serve() error {
	s := mcp.NewServer(&mcp.Implementation{Name: "crm", Version: "1.0.0"}, nil)
	yes, no := true, false
	write := &mcp.ToolAnnotations{DestructiveHint: &yes, IdempotentHint: true, OpenWorldHint: &no}
	readOnly := &mcp.ToolAnnotations{ReadOnlyHint: true, OpenWorldHint: &no}
	one, err := schema[contact]()
	if err != nil {
		return err
	}
	mcp.AddTool(s, &mcp.Tool{Name: "upsert_contact", Description: "Add a contact, or replace the one with that e-mail address.",
		Annotations: write, InputSchema: one}, recorded(c, c.upsertOne))
	mcp.AddTool(s, &mcp.Tool{Name: "upsert_many", Description: "Add or replace up to 1000 contacts; all of them or, if one is wrong, none.",
		Annotations: write}, recorded(c, c.upsert))
	mcp.AddTool(s, &mcp.Tool{Name: "find_contact", Description: "Find the contact with an e-mail address.", Annotations: readOnly},
		recorded(c, c.find))
	mcp.AddTool(s, &mcp.Tool{Name: "count", Description: "Count the contacts.", Annotations: readOnly}, recorded(c, c.count))
	return s.Run(context.Background(), &mcp.StdioTransport{})
}

// schema returns the schema of T with the format of e-mail addresses.
func schema[T any]() (*jsonschema.Schema, error) {
	s, err := jsonschema.For[T](nil)
	if err == nil {
		s.Properties["email"].Format = "email"
	}
	return s, err
}

// recorded wraps a tool and records the arguments of each call.
func recorded[In, Out any](c *crm, work func(In) (Out, error)) mcp.ToolHandlerFor[In, Out] {
	return func(_ context.Context, r *mcp.CallToolRequest, in In) (*mcp.CallToolResult, Out, error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		var none Out
		line, err := json.Marshal(struct {
			Tool      string          `json:"tool"`
			Arguments json.RawMessage `json:"arguments"`
		}{r.Params.Name, r.Params.Arguments})
		if err != nil {
			return nil, none, err
		}
		if _, err := c.record.Write(append(line, '\n')); err != nil {
			return nil, none, err
		}
		out, err := work(in)
		return nil, out, err
	}
}

func (c *crm) upsertOne(one contact) (change, error) { return c.upsert(contacts{[]contact{one}}) }

func (c *crm) upsert(in contacts) (did change, err error) {
	if len(in.Contacts) > maxContacts {
		return did, fmt.Errorf("%d contacts are too many: at most %d are allowed in one call", len(in.Contacts), maxContacts)
	}
	for i, one := range in.Contacts {
		if _, err := mail.ParseAddress(one.Email); err != nil {
			return did, fmt.Errorf("contact %d: %q is not an e-mail address", i, one.Email)
		}
	}
	for _, one := range in.Contacts {
		k := strings.ToLower(one.Email)
		if _, there := c.known[k]; there {
			did.Updated++
		} else {
			did.Created++
		}
		c.known[k] = one
	}
	return did, nil
}

func (c *crm) find(k key) (contact, error) {
	one, there := c.known[strings.ToLower(k.Email)]
	if !there {
		return contact{}, fmt.Errorf("there is no contact with the address %q", k.Email)
	}
	return one, nil
}

func (c *crm) count(noArguments) (total, error) { return total{len(c.known)}, nil }
