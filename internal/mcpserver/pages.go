package mcpserver

import (
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/mcpserver/builtin"
)

// pageLength limits the entries in a page of a list. One has about 300 bytes.
const pageLength = 50

// pageParams are the parameters of a tool that lists in pages.
var pageParams = []builtin.Param{{Name: "offset", Kind: builtin.Integer}}

// readOffset returns the number of entries to skip. what names the entries in the error.
func readOffset(c builtin.Call, what string) (int, error) {
	var args struct{ Offset int }
	if err := c.Read(&args); err != nil {
		return 0, err
	}
	if args.Offset < 0 {
		return 0, fault.New(fault.Invalid, "offset is %d; it counts the %s to skip, from 0", args.Offset, what)
	}
	return args.Offset, nil
}

// pageAt returns the page of a list at offset, and the offset of the entries that follow, 0 if there
// are none.
func pageAt[T any](all []T, offset int) (page []T, next int) {
	start := min(offset, len(all))
	end := min(start+pageLength, len(all))
	if end < len(all) {
		next = end
	}
	return all[start:end], next
}
