package cli

import (
	"strings"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/execution/pycode"
)

func TestReadCodeRemovesByteOrderMarkAndKeepsExcess(t *testing.T) {
	const limit = pycode.MaxBytes
	for _, c := range []struct {
		mark       string
		size, want int
	}{
		{"", 1, 1}, {"\xef\xbb\xbf", 1, 1},
		{"", limit, limit}, {"\xef\xbb\xbf", limit, limit},
		{"", 2 * limit, limit + 1}, {"\xef\xbb\xbf", 2 * limit, limit + 1},
	} {
		got, err := readCode(strings.NewReader(c.mark+strings.Repeat("#", c.size)), "x.py")
		if err != nil || got != strings.Repeat("#", c.want) {
			t.Errorf("%d bytes after %q: got %d bytes, %v; want %d", c.size, c.mark, len(got), err, c.want)
		}
	}
}
