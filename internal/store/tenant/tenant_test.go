package tenant_test

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

func TestParseAcceptsUIDsAsCustomersWriteThem(t *testing.T) {
	for uid, dir := range map[string]string{
		"local":                                "local",
		"user_12345":                           "user_12345",
		"a-b":                                  "a-b",
		"4f9f0c3e-58d1-4a5e-9f7e-2f6a3f0c1d2e": "4f9f0c3e-58d1-4a5e-9f7e-2f6a3f0c1d2e",
		strings.Repeat("a", 64):                strings.Repeat("a", 64),

		"customer_A":                           "customer_a.1z03wb2f73s328n0dctvrncfx2",
		"ada.lovelace+":                        "",
		"ada@example.org":                      "ada-example-org.",
		"4F9F0C3E-58D1-4A5E-9F7E-2F6A3F0C1D2E": "4f9f0c3e-58d1-4a5e-9f7e-2f6a3f0c.",
		"客户一":                                  "tenant.",
		"Rene\u0301":                           "rene.",   // decomposed
		"e\u0301\u0323":                        "e.",      // two marks
		"हिन्दी":                               "tenant.", // vowel signs and a virama
		"ไทยนี้":                               "tenant.",
		"_x":                                   "x.",
		".hidden":                              "hidden.",
		"a..b":                                 "a-b.",
		"con.smith":                            "con-smith.",
		strings.Repeat("a", 65):                strings.Repeat("a", 32) + ".",
		strings.Repeat("客", 128):               "tenant.",
	} {
		id, err := tenant.Parse(uid)
		if dir == "" {
			if err == nil {
				t.Errorf("%q: accepted", uid)
			}
			continue
		}
		if err != nil || id.String() != uid || !strings.HasPrefix(id.Dir(), dir) {
			t.Errorf("%q: %q in %q, %v; want a directory %s", uid, id, id.Dir(), err, dir)
		}
	}
}

func TestParseErrorContainsRule(t *testing.T) {
	for _, uid := range []string{
		"", ".", "..", "@", "-", "-x", "--config", "_.-@", "../etc", "a/b", `a\b`, "a b", "a\x00b", "a\nb", "a\u202eb", "a\u200bb", "a:b",
		"a+b", "a%2fb",
		"\u0301", "\u0301e", "1\u0301", "a.\u0301", "a1\u0301", "e\u034f", "a\ufe0f", "a\U000e0100", "a\u20dd", "a\u180b", "\xff",
		strings.Repeat("a", 129), strings.Repeat("a", 1<<20), "½", "①", "😀",
	} {
		id, err := tenant.Parse(uid)
		if fault.KindOf(err) != fault.Invalid || !id.IsZero() || !strings.Contains(fault.Message(err),
			"1 to 128 letters, digits and '@', '.', '_', '-'") {
			t.Errorf("%.40q: %q, %v", uid, id, err)
		}
		if len(fault.Message(err)) > 500 {
			t.Errorf("%.40q: the message has %d bytes", uid, len(fault.Message(err)))
		}
	}
	for _, uid := range []string{"con", "CON", "Nul", "com1", "LPT9"} {
		if _, err := tenant.Parse(uid); fault.KindOf(err) != fault.Invalid || !strings.Contains(err.Error(), "reserved") {
			t.Errorf("%q: %v", uid, err)
		}
	}
}

func TestSimilarUIDsHaveDifferentDirectories(t *testing.T) {
	similar := []string{
		"customer_a", "customer_A", "Customer_a", "CUSTOMER_A", "customer-a", "customer.a", "customer@a",
		"\u00c5ngstrom", "\u212bngstrom", "\u00e5ngstrom", // composed, the sign, lower case
		"admin", "аdmin", "ADMIN", // the second starts with a Cyrillic letter
		"Ren\u00e9", "Rene\u0301", "Rene", "e\u0301\u0323", "e\u0323\u0301", "\u1eb9\u0301", // composed, decomposed, marks in another order
		"1", "١", // ASCII and Arabic digit
		strings.Repeat("a", 64), strings.Repeat("a", 65), strings.Repeat("a", 66),
	}
	for _, uid := range similar {
		id, err := tenant.Parse(uid)
		if err != nil {
			t.Fatal(err)
		}
		similar = append(similar, id.Dir()) // the name of a directory is a uid of another tenant
	}
	seen := map[string]string{}
	for _, uid := range similar {
		id, err := tenant.Parse(uid)
		if err != nil {
			t.Fatal(err)
		}
		dir := strings.ToLower(id.Dir()) // some file systems ignore case
		if other, ok := seen[dir]; ok && other != uid {
			t.Errorf("%q and %q share the directory %s", uid, other, dir)
		}
		seen[dir] = uid
	}
}

func FuzzDirIsOnePathElement(f *testing.F) {
	for _, uid := range []string{"customer_A", "..", "a/b", "客户", "a\x00", "con", strings.Repeat("x", 200)} {
		f.Add(uid)
	}
	safe := regexp.MustCompile(`^[a-z0-9][a-z0-9_.-]*$`)
	f.Fuzz(func(t *testing.T, uid string) {
		id, err := tenant.Parse(uid)
		if err != nil {
			if !id.IsZero() {
				t.Fatalf("%q: %v and an id", uid, err)
			}
			return
		}
		dir := id.Dir()
		if !safe.MatchString(dir) || len(dir) > 64 || filepath.Base(dir) != dir || strings.HasSuffix(dir, ".") {
			t.Fatalf("%q: directory %q", uid, dir)
		}
	})
}
