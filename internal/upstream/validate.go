package upstream

import (
	"unicode/utf8"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

const maxServerName = 100 // characters

// errNoAddress is the error for a server that is nowhere.
var errNoAddress = fault.New(fault.Invalid, "needs either a command or a URL")

// checkServers returns an error for servers that cannot work together. Those that contain references
// are checked when they are started.
func checkServers(servers []Server, resolved bool) error {
	seen := map[string]bool{}
	for _, c := range servers {
		if err := validate(c); err != nil && (resolved || c.Kind == nil) {
			return err
		}
		if seen[c.Name] {
			return fault.New(fault.Invalid, "there are two servers named %q: give one of them another name", c.Name)
		}
		seen[c.Name] = true
	}
	return nil
}

// validate rejects a configuration that cannot work.
func validate(c Server) error {
	switch {
	case c.Name == "" || utf8.RuneCountInString(c.Name) > maxServerName || !utf8.ValidString(c.Name):
		return fault.New(fault.Invalid, "server name %.120q is not allowed: use 1 to %d characters", c.Name, maxServerName)
	case c.Concurrency < 0 || c.Timeout < 0 || c.ProgressTimeout < 0 || c.StartTimeout < 0:
		return fault.New(fault.Invalid, "server %q has a negative limit", c.Name)
	}
	err := error(errNoAddress)
	if c.Kind != nil {
		err = c.Kind.Validate()
	}
	if err != nil {
		return fault.New(fault.KindOf(err), "server %q %s", c.Name, fault.Message(err)).WithHint("%s", fault.Hint(err))
	}
	return nil
}
