package tenant_test

import (
	"strings"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

func TestParseErrorSuggestsValidID(t *testing.T) {
	for id, want := range map[string]string{
		"customer_A": "write customer_a:", "Acme Inc.": "write acme-inc-:", "_x": "write x:", "ä": "", "": "", strings.Repeat("A", 65): "",
	} {
		_, err := tenant.Parse(id)
		if fault.KindOf(err) != fault.Invalid || !strings.HasPrefix(fault.Hint(err), want) || want == "" && fault.Hint(err) != "" {
			t.Errorf("%q: %v, hint %q", id, err, fault.Hint(err))
		}
	}
}
