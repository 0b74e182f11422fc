package builtin

import (
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/memory"
	"github.com/sandpiper-mcp/sandpiper/internal/rawjson"
)

// maxEscape is the largest number of bytes in JSON for a byte of a text.
const maxEscape = 6

// CheckSizes refuses arguments whose JSON is longer than that of any allowed value, before they are
// decoded. The memory for those of other sizes is part of that for their message.
func CheckSizes(name string, params []Param, args []byte) error {
	if len(args) <= memory.Small {
		return nil
	}
	names := make([]string, len(params))
	for i, p := range params {
		names[i] = p.Name
	}
	values, ok := rawjson.Members(args, names...)
	if !ok {
		return nil // Decode returns the error
	}
	for i, p := range params {
		most := p.MaxBytes
		if p.Kind == Text {
			most *= maxEscape
		}
		if p.MaxBytes > 0 && len(values[i]) > most+2 {
			return fault.New(fault.Invalid, "%s: %s has %d bytes of JSON; at most %d bytes are allowed", name, p.Name, len(values[i]),
				p.MaxBytes).
				WithHint("write large data to files with write_workspace_file, in parts, and read them in code")
		}
	}
	return nil
}
