package blob

import (
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

const (
	maxKey     = 1000 // bytes; S3, Google Cloud Storage and Azure allow 1,024 characters
	maxElement = 255  // bytes of a file name
)

const keyRule = "use a-z, 0-9, '-', '_', '=' and '.', with '/' between elements that neither begin nor end with '.'"

// checkKey returns an error if Create would refuse a key.
func checkKey(key string) error {
	switch {
	case key == "":
		return fault.New(fault.Invalid, "the key of an object is empty")
	case len(key) > maxKey:
		return fault.New(fault.Invalid, "the key %.40q… has %d bytes; at most %d are allowed, with the bucket's prefix", key, len(key),
			maxKey)
	}
	for element := range strings.SplitSeq(key, "/") {
		switch {
		case element == "":
			return fault.New(fault.Invalid, "the key %.80q begins or ends with '/' or has an empty element: %s", key, keyRule)
		case len(element) > maxElement:
			return fault.New(fault.Invalid, "the key %.40q… has an element of %d bytes; at most %d are allowed", key, len(element),
				maxElement)
		case element[0] == '.' || element[len(element)-1] == '.':
			return fault.New(fault.Invalid, "the key %.80q has the element %.40q: %s", key, element, keyRule)
		}
	}
	return checkBytes(key)
}

// checkBytes returns an error if a key, or a part of one, has a byte that keys cannot have.
func checkBytes(key string) error {
	for i := range len(key) {
		if c := key[i]; !(c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c >= '-' && c <= '/' || c == '_' || c == '=') {
			return fault.New(fault.Invalid, "the key %.80q has a byte %q, which is not allowed: %s", key, c, keyRule)
		}
	}
	return nil
}
