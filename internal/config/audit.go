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
	"github.com/sandpiper-mcp/sandpiper/internal/clock"
)

// defaultAudit is the default retention of the audit log.
var defaultAudit = audit.Retention{Age: 365 * 24 * time.Hour, Bytes: 4000 << 20}

// days reads a retention time; never means 0, no limit.
func days(to *time.Duration, s setting) error {
	if s.text == "0" || s.text == "never" {
		*to = 0
		return nil
	}
	v, err := clock.ParseDuration(s.text)
	if err != nil || v <= 0 || v > 100*365*24*time.Hour {
		return wrong(s, "a time such as 30d or 12h, or never")
	}
	*to = v
	return nil
}

// auditSize reads the size limit of the audit log; never means 0, no limit.
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

// sectionHashes returns hashes of the settings of each section, including literal
// secrets.
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
