package config

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/config/section"
)

// fixed returns pointers to the settings that a running daemon cannot change, by their key or
// section.
func (c *Config) fixed() map[string]any {
	all := map[string]any{
		"background":  &c.Background,
		"log":         &c.Log,
		"audit":       &c.Audit,
		"telemetry":   &c.Telemetry,
		"search":      &c.Search,
		"http.oidc":   &c.HTTP.OIDC,
		"http.tls":    &c.HTTP.TLS,
		"SERVERS_DIR": &c.ServersDir,
		"SKILLS_DIR":  &c.SkillsDir,
	}
	for name, k := range tableOf(c).keys {
		if k.fixed != nil {
			all[name] = k.fixed(c)
		}
	}
	return all
}

// KeepFixed replaces the settings of c that a running daemon cannot change by those in force, and
// returns the sorted keys of those that differ. authenticated means that the daemon was started with
// authentication.
func (c *Config) KeepFixed(running *Config, authenticated bool) (differ []string) {
	old := running.fixed()
	for key, to := range c.fixed() {
		if old[key] == nil { // of a feature, in a configuration that was not loaded
			continue
		}
		now, was := reflect.ValueOf(to).Elem(), reflect.ValueOf(old[key]).Elem()
		if !reflect.DeepEqual(now.Interface(), was.Interface()) {
			differ = append(differ, sectionOf(key, old))
			now.Set(was)
		}
	}
	for name, old := range running.PackageLayers {
		if now, ok := c.PackageLayers[name]; ok && !reflect.DeepEqual(now, old) {
			differ = append(differ, "sandbox.package_layers."+name)
			c.PackageLayers[name] = old
		}
	}
	if own := tableOf(c).profile; (c.Profile == own) != (running.Profile == own) {
		differ = append(differ, "profile")
		c.Profile = running.Profile
		c.Tenants.setProfile(running.Profile)
	}
	// Clients of a daemon without authentication have no token.
	if !authenticated && c.HTTP.Authenticated() {
		for key := range c.Keys {
			if key == "http.token" || key == "http.api_keys" || strings.HasPrefix(key, "http.tokens.") {
				differ = append(differ, key)
			}
		}
		c.HTTP.Tokens, c.HTTP.Keys = nil, false
	}
	slices.Sort(differ)
	return slices.Compact(differ)
}

// sectionOf returns the section of all that contains a key; without one, the key.
func sectionOf(key string, all map[string]any) string {
	for i := range key {
		if _, in := all[key[:i]]; in && key[i] == '.' {
			return key[:i]
		}
	}
	return key
}

// setProfile replaces the profile of tiers and tenants without another one: that of the daemon.
func (t *Tenants) setProfile(profile string) {
	if t == nil {
		return
	}
	t.raw.Profile = profile
	for _, one := range t.tiers {
		if of, err := t.apply(&one.block); err == nil { // Load has applied it
			one.config = of
		}
	}
}

// ChangedKeys returns the sorted keys whose settings differ between two configurations; of tiers,
// tenants, subsets and servers those of each one. Keys in fixed, and those below them, are not
// returned.
func (c *Config) ChangedKeys(old *Config) (changed []string) {
	fixed := c.fixed()
	all := maps.Clone(old.Keys)
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, c.Keys)
	for _, key := range slices.Sorted(maps.Keys(all)) {
		if c.Keys[key] != old.Keys[key] && !isBelow(strings.TrimPrefix(key, "project."), fixed) {
			changed = append(changed, key)
		}
	}
	return changed
}

// byName are the keys whose settings are listed by name.
var byName = map[string]bool{"servers": true, "tiers": true, "tenants": true, "subsets": true, "package_layers": true}

// keyHashes returns hashes of the settings by key, those of byName by key and name.
func keyHashes(given map[string]setting) map[string]string {
	all := map[string]string{}
	put := func(key, text string) {
		sum := sha256.Sum256([]byte(text))
		all[key] = hex.EncodeToString(sum[:])
	}
	for key, s := range given {
		switch _, name := cutKey(key); {
		case s.node == nil:
			put(key, s.text)
		case byName[name]:
			for _, m := range section.Members(s.node) {
				put(key+"."+m.Key.GetToken().Value, m.Value.String())
			}
		default:
			put(key, s.node.String())
		}
	}
	return all
}

// isBelow reports whether a key, or a section that contains it, is in all.
func isBelow(key string, all map[string]any) bool {
	for {
		if _, in := all[key]; in {
			return true
		}
		i := strings.LastIndexByte(key, '.')
		if i < 0 {
			return false
		}
		key = key[:i]
	}
}
