package builtin

import (
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

// pageLength limits the entries in a page of a list. One has about 300 bytes.
const pageLength = 50

// PageParams are the parameters of a tool that lists in pages.
var PageParams = []Param{{Name: "offset", Kind: Integer}}

// ReadOffset returns the number of entries to skip. what names the entries in the error.
func ReadOffset(c Call, what string) (int, error) {
	var args struct{ Offset int }
	if err := c.Read(&args); err != nil {
		return 0, err
	}
	if args.Offset < 0 {
		return 0, fault.New(fault.Invalid, "offset is %d; it counts the %s to skip, from 0", args.Offset, what)
	}
	return args.Offset, nil
}

// PageAt returns the page of a list at offset, and the offset of the entries that follow, 0 if there
// are none.
func PageAt[T any](all []T, offset int) (page []T, next int) {
	start := min(offset, len(all))
	end := min(start+pageLength, len(all))
	if end < len(all) {
		next = end
	}
	return all[start:end], next
}
