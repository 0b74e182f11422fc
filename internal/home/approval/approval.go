// Package approval remembers questions whether something may be done: a call of a
// tool, or a plan of calls.
//
// The words: a Request is such a question, known by a short id that can be typed; a
// Binding is exactly what it is about; it is open until somebody answers it, it
// expires, or nobody waits for it any more. It is answered once. One that is approved
// is used once, for its binding and nothing else. What a person is shown lies sealed
// in the tenant's database, bound to tenant and id.
//
// A Store is safe for concurrent use, and any number of processes may have one for
// the same database: whoever answers first, in whichever process, has answered. What
// Open, Answer and Use returned is on disk. The package decides nothing, asks nobody
// and calls nothing.
package approval

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"encoding/json"
	"errors"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/store"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
)

// Tables is the first migration of approvals. Times are Unix milliseconds.
const Tables = `
CREATE TABLE approvals (
	id         TEXT    NOT NULL PRIMARY KEY,
	kind       TEXT    NOT NULL, -- 'call' or 'plan'
	execution  TEXT    NOT NULL, -- '' if no code asks
	session    TEXT    NOT NULL,
	occurrence INTEGER NOT NULL, -- of the call in its execution, from 1
	server     TEXT    NOT NULL,
	tool       TEXT    NOT NULL,
	schema     TEXT    NOT NULL, -- hash of the tool's definition
	arguments  TEXT    NOT NULL, -- hash
	rule       TEXT    NOT NULL,
	reason     TEXT    NOT NULL,
	shown      BLOB    NOT NULL, -- sealed
	created    INTEGER NOT NULL,
	expires    INTEGER NOT NULL,
	state      TEXT    NOT NULL,
	answered   INTEGER NOT NULL, -- 0 as long as it is not
	answerer   TEXT    NOT NULL, -- who answered
	note       BLOB              -- what they said, sealed; NULL if nothing
) STRICT;
CREATE INDEX approvals_bound ON approvals (execution, server, tool, arguments);
CREATE INDEX approvals_expiring ON approvals (expires);
`

// Kind says what is asked for.
type Kind string

const (
	Call Kind = "call" // one call of a tool
	Plan Kind = "plan" // the calls that a dry run recorded
)

// State is how far a request is.
type State string

const (
	Open      State = "open"
	Approved  State = "approved"
	Denied    State = "denied"
	Expired   State = "expired"   // nobody answered in time
	Withdrawn State = "withdrawn" // whoever asked does not wait for an answer any more
	Used      State = "used"      // it was approved, and done
)

// Who answered.
const (
	Client      = "client"       // the person, in a form of the MCP client
	CommandLine = "command_line" // the person, in a terminal
)

// Binding is what a request is about. Two that are equal are the same question.
type Binding struct {
	Kind       Kind
	Execution  string // whose code asks; "" if none does
	Occurrence int    // of calls of the execution that are otherwise alike, from 1
	tool.Ref          // zero for a Plan
	Schema     string // hash of the tool's definition
	Arguments  string // hash of the very bytes that are sent
}

// Question is what Ask is given.
type Question struct {
	Binding
	Session string
	Rule    string          // that wants a person to be asked
	Reason  string          // of the rule, or ""
	Shown   json.RawMessage // to the person: the arguments as they are, with all values
}

// Request is a question that was asked.
type Request struct {
	ID string
	Question
	Created, Expires time.Time
	State            State
	Answered         time.Time // zero if it was not
	By               string    // who answered, as Client or CommandLine
	Note             string    // what they said with it
	Damaged          bool      // what is sealed of it does not open: it cannot be answered
}

// Config of a Store.
type Config struct {
	DB      *store.DB     // with Tables in it. Required
	Tenant  tenant.ID     // whose they are. Required
	Key     []byte        // seals what is shown: 32 bytes. Required
	Timeout time.Duration // how long a request is good for; 0 means 24 hours
	MaxOpen int           // open at once; 0 means 100
	// Record keeps that a request was opened, answered or has expired. It is called
	// before anybody sees that it was, which an error prevents; nil keeps nothing.
	Record func(context.Context, Request) error
	Now    func() time.Time // nil means time.Now
}

// Store has the requests of one tenant.
type Store struct {
	cfg Config
	box cipher.AEAD
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
	if len(cfg.Key) != 32 {
		return nil, errors.New("approval: Config needs a Key of 32 bytes")
	}
	block, err := aes.NewCipher(cfg.Key)
	if err != nil {
		return nil, err
	}
	box, err := cipher.NewGCMWithRandomNonce(block)
	return &Store{cfg, box}, err
}

// seal seals a text of a request; part tells the two apart that one may have.
func (s *Store) seal(id, part string, text []byte) []byte {
	return s.box.Seal(nil, nil, text, s.bound(id, part))
}

func (s *Store) unseal(id, part string, sealed []byte) ([]byte, error) {
	return s.box.Open(nil, nil, sealed, s.bound(id, part))
}

func (s *Store) bound(id, part string) []byte {
	return []byte("sandpiper approval\x00" + s.cfg.Tenant.String() + "\x00" + id + "\x00" + part)
}
