//go:build !linux

package blob_test

import (
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/store/blob"
)

// readOnlyDirectory returns nil: the tests may run as a user who can write everywhere.
func readOnlyDirectory() func(testing.TB, func(blob.Bucket)) { return nil }
