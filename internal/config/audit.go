package config

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/sandpiper-mcp/sandpiper/internal/audit"
)

// defaultAudit bounds the audit log of an operator who has configured nothing.
var defaultAudit = audit.Keep{Age: 365 * 24 * time.Hour, Bytes: 4000 << 20}

// days reads how long something is kept; never is 0, which stands for ever.
func days(to *time.Duration, s setting) error {
	if s.text == "0" || s.text == "never" {
		*to = 0
		return nil
	}
	count := strings.TrimSuffix(s.text, "d")
	n, err := time.ParseDuration(count + "h")
	if count == s.text {
		n, err = time.ParseDuration(s.text)
		n /= 24
	}
	if err != nil || n <= 0 || n > 100*365*time.Hour {
		return wrong(s, "a time such as 30d or 12h, or never")
	}
	*to = n * 24
	return nil
}

// auditSize reads how much of the audit log is kept; never is 0, which stands for all.
func auditSize(to *int64, s setting) error {
	if s.text == "never" {
		*to = 0
		return nil
	}
	return megabytes(to, s, 1, 1<<24)
}

func megabytes(to *int64, s setting, least, most int) error {
	n := 0
	if err := whole(&n, s, least, most); err != nil {
		return err
	}
	*to = int64(n) << 20
	return nil
}

// sectionHashes are hashes of what was set in each part of the configuration. They
// are of secrets too, where these stand in it themselves.
func sectionHashes(given map[string]setting) map[string]string {
	texts := map[string]string{}
	for _, key := range slices.Sorted(maps.Keys(given)) {
		s := given[key]
		if s.node != nil {
			s.text = s.node.String()
		}
		name, _, _ := strings.Cut(key, ".")
		texts[name] += fmt.Sprintf("%q %q\n", key, s.text)
	}
	for name, text := range texts {
		sum := sha256.Sum256([]byte(text))
		texts[name] = hex.EncodeToString(sum[:])
	}
	return texts
}
