// Package approval stores requests for a person's approval of a tool call or of a plan of
// calls, and the answers.
//
// A Request has a short id that can be typed. Its Binding identifies exactly what is to be
// approved. It is open until a person answers it, it expires, or it is withdrawn. It is
// answered at most once, and an approval is used at most once, for its binding only. With an
// approval the person may allow further calls of the tool: see package grant. The
// arguments, the code that asks and the notes are encrypted in the tenant's database, with
// tenant and id as additional data.
//
// A Store is safe for concurrent use, and any number of processes may have one for the same
// database: the first answer counts. When Create, Answer or Use returns, its change is on disk.
// The package makes no decision, asks no person and makes no call.
package approval

import (
	"context"
	"encoding/json"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/home/approval/grant"
	"github.com/sandpiper-mcp/sandpiper/internal/store"
	"github.com/sandpiper-mcp/sandpiper/internal/store/sealed"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
)

// Tables creates the tables of approvals and grants. Times are Unix milliseconds.
const Tables = `
CREATE TABLE approvals (
	id         TEXT    NOT NULL PRIMARY KEY,
	kind       TEXT    NOT NULL, -- 'call' or 'plan'
	execution  TEXT    NOT NULL, -- '' outside of an execution
	session    TEXT    NOT NULL,
	occurrence INTEGER NOT NULL, -- of the call in its execution, from 1
	server     TEXT    NOT NULL,
	tool       TEXT    NOT NULL,
	schema     TEXT    NOT NULL, -- hash of the tool's definition
	arguments  TEXT    NOT NULL, -- hash
	rule       TEXT    NOT NULL,
	reason     TEXT    NOT NULL,
	shown      BLOB    NOT NULL, -- encrypted
	created    INTEGER NOT NULL,
	expires    INTEGER NOT NULL,
	state      TEXT    NOT NULL,
	answered   INTEGER NOT NULL, -- 0 if it is not
	answerer   TEXT    NOT NULL, -- Client or CommandLine
	note       BLOB,             -- encrypted text of the answer; NULL if empty
	origin     BLOB,             -- encrypted Origin; NULL if there is none
	unseen     INTEGER NOT NULL DEFAULT 0 -- 1 if it expired while its execution had no process, which learns of it when it runs again
) STRICT;
CREATE INDEX approvals_bound ON approvals (execution, server, tool, arguments);
CREATE INDEX approvals_expiring ON approvals (expires);
` + grant.Tables

// Queries for names, see home.Names: all requests, and those without an answer.
const (
	NameQuery = "SELECT id, trim(server || '.' || tool, '.') || ', ' || state FROM approvals ORDER BY created DESC LIMIT 200"
	OpenQuery = "SELECT id, trim(server || '.' || tool, '.') FROM approvals WHERE state = 'open' AND expires > unixepoch() * 1000 ORDER " +
		"BY created DESC LIMIT 200"
)

// Kind is the subject of a request.
type Kind string

const (
	Call Kind = "call" // one call of a tool
	Plan Kind = "plan" // the calls that a dry run recorded
)

// State is the state of a request.
type State string

const (
	Open      State = "open"
	Approved  State = "approved"
	Denied    State = "denied"
	Expired   State = "expired"   // not answered in time
	Withdrawn State = "withdrawn" // nothing waits for the answer, and nothing can resume
	Used      State = "used"      // approved, and consumed before the call was sent or the plan applied
)

// Sources of an answer.
const (
	Client      = "client"       // the person, in a form of the MCP client
	CommandLine = "command_line" // the person, in a terminal
	WebPage     = "web_page"     // the person, in a browser
	Program     = "program"      // the Go program that embeds Sandpiper
)

// Binding identifies the call or plan of a request. Requests with equal bindings are the same
// request.
type Binding struct {
	Kind       Kind
	Execution  string // "" outside of an execution
	Occurrence int    // counts equal calls of the execution, from 1
	tool.Ref          // zero for a Plan
	Schema     string // hash of the tool's definition
	Arguments  string // hash of the exact bytes that are sent
}

// Question is the content of a request, from its caller.
type Question struct {
	Binding
	Session string
	Rule    string          // policy rule that requires approval
	Reason  string          // of the rule, or ""
	Shown   json.RawMessage // arguments, or calls of the plan, as the person sees them: with private values
	Origin  Origin
	// NotBegun means that the execution has a record in which the call has not begun. It is not stored.
	NotBegun bool
}

// Request is a stored question.
type Request struct {
	ID string
	Question
	Created, Expires time.Time
	State            State
	Answered         time.Time   // zero if unanswered
	By               string      // Client, CommandLine, WebPage or Program
	Note             string      // text of the answer
	Scope            grant.Scope // which calls the answer allowed, unless that was revoked
	Damaged          bool        // the arguments or the note cannot be decrypted: it cannot be answered
}

// Config of a Store.
type Config struct {
	DB      *store.DB     // has the tables of Tables. Required
	Tenant  tenant.ID     // owner of the requests. Required
	Key     []byte        // encrypts arguments and notes: 32 bytes. Required
	Timeout time.Duration // lifetime of a request; 0 means 24 hours
	MaxOpen int           // open requests; 0 means 100
	Via     func() Via    // where requests are answered now; nil, or "", means ViaBoth
	// Record is called when a request is created, answered, or found to have expired by
	// Wait, before the change is committed; an error prevents the change. nil means no call.
	Record func(context.Context, Request) error
	// Unknown is called with each id that is not one of the tenant but has the form of one;
	// nil means no call.
	Unknown func(id string)
	Now     func() time.Time // nil means time.Now
}

// Store contains the requests of one tenant.
type Store struct {
	cfg    Config
	cipher sealed.Cipher
	// Grants stores the permissions that persons gave beyond the calls that they approved.
	Grants *grant.Store
	// Closed is called in the transaction in which a request is answered or has expired; nil means no call. It is set
	// before the Store is used.
	Closed func(context.Context, *store.Tx, Request) error
}

// New returns the Store of a tenant. It does no I/O.
func New(cfg Config) (*Store, error) {
	if cfg.Timeout == 0 {
		cfg.Timeout = 24 * time.Hour
	}
	if cfg.MaxOpen == 0 {
		cfg.MaxOpen = 100
	}
	if cfg.Record == nil {
		cfg.Record = func(context.Context, Request) error { return nil }
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	cipher, err := sealed.New(cfg.Key, cfg.Tenant.String())
	return &Store{cfg: cfg, cipher: cipher, Grants: grant.New(cfg.DB, cfg.Now)}, err
}

// The encrypted columns.
var (
	ofShown  = column("shown")
	ofNote   = column("note")
	ofOrigin = column("origin")
)

func column(name string) sealed.Column {
	return sealed.Column{Table: "approvals", Name: name, Keys: []string{"id"}}
}
