package upstream

import (
	"context"
	"log/slog"

	"github.com/sandpiper-mcp/sandpiper/internal/store/secret"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream/mcp"
)

// Authorization obtains the access tokens of a Remote. Its settings may contain references.
type Authorization interface {
	// Validate reports settings that cannot work, as a Kind does.
	Validate() error
	// Tokens returns the source of the tokens for an account, nil if there is none. A Login is one that a
	// person obtains.
	Tokens(context.Context, Account) (TokenSource, error)
}

// Account is the use of a server that requires tokens.
type Account struct {
	Server string        // its name
	URL    string        //
	Logins *secret.Store // of logins, under LoginName; nil means that there are none
	// Resolve resolves references in a setting; what is its name.
	Resolve func(ctx context.Context, what, value string) (string, error)
	// OnSecret is called with every secret of the settings, and OnToken with every token, so that they can be
	// redacted. They do not block.
	OnSecret, OnToken func(string)
	Log               *slog.Logger
}

// Login is a TokenSource for the tokens that a person obtains by logging in. Its errors are faults whose
// message is a predicate: the caller puts the name of the server first.
type Login interface {
	TokenSource
	// Changed reports whether the stored login differs from the one last read.
	Changed() bool
	// Requested reports whether the server required a login, or a login exists.
	Requested() bool
	// Authorize lets a person log in for a challenge, and stores the tokens. ctx bounds its duration.
	Authorize(context.Context, Challenge, Interaction) error
	// Logout deletes the login and revokes its tokens. The first result reports why the revocation failed.
	Logout(context.Context) (unrevoked, err error)
}

// Types of package mcp that an Authorization uses.
type (
	TokenSource = mcp.TokenSource
	Challenge   = mcp.Challenge
)

// ErrInsufficientScope means that a valid token lacks scopes for the request.
var ErrInsufficientScope = mcp.ErrInsufficientScope

// Interaction connects a login to the person's browser and terminal.
type Interaction struct {
	// OpenURL displays the login URL or opens it in a browser. It must not block.
	OpenURL func(address string)
	// Pasted delivers lines that the person typed: the URL at which the browser ended, or
	// the code in it. nil without a terminal.
	Pasted <-chan string
	// Reject reports why a pasted line is unusable; another line may follow. nil without a
	// terminal.
	Reject func(why string)
}

// LoginName is the name under which the login to a server is stored.
func LoginName(server string) string { return "login " + server }

// HasLogin reports whether a store has a login to a server.
func HasLogin(logins *secret.Store, server string) bool {
	return !logins.Stamp(LoginName(server)).Equal(secret.Stamp{})
}
