package config

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
)

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
