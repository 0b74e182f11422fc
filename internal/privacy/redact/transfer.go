package redact

import "github.com/sandpiper-mcp/sandpiper/internal/store/tenant"

// Transfer describes values that were restored or sent to a tool. It never contains a
// value.
type Transfer struct {
	Tenant      tenant.ID
	Session     string         // "": none
	Execution   string         // "": none
	Destination string         // "server.tool", or one of the constants below
	Types       map[string]int // number of values by type
	Tokens      []string       // tokens that were restored; empty if the code had the values
	Denied      bool           // the transfer was denied
}

// Destinations other than tools.
const (
	ToCode   = "code"
	ToFile   = "file"
	ToServer = "server" // other than by a tool call
	ToModel  = "model"
	ToPerson = "person" // on the command line, or in a form of the client
)
