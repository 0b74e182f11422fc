package config

import (
	"fmt"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/sandpiper-mcp/sandpiper/internal/config/section"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/catalog"
	"github.com/sandpiper-mcp/sandpiper/internal/tool/glob"
)

// readTenants reads the sections tiers and tenants into c. raw is c without the settings of a
// project, and project applies these.
func readTenants(given givenKeys, c *Config, raw Config, project func(*Config) error) error {
	if given["tiers"].node == nil && given["tenants"].node == nil {
		return nil
	}
	t := &Tenants{raw: raw, own: map[tenant.ID]*block{}, project: project, combined: map[combination]*Config{}}
	c.Tenants = t
	if err := t.readTiers(given["tiers"]); err != nil {
		return err
	}
	return t.readOwn(given["tenants"])
}

func (t *Tenants) readTiers(s setting) error {
	if s.node == nil {
		return nil
	}
	for _, m := range section.Members(s.node) {
		one := &tier{name: m.Key.GetToken().Value}
		at := place(lineOf(s, m.Key), "tiers."+one.name)
		if !isName(one.name) {
			return fault.New(fault.Invalid, "%s: %.40q is not a valid name for a tier: use at most 64 of a-z, 0-9, _ and -",
				lineOf(s, m.Key), one.name)
		}
		rest, err := one.read(tableOf(&t.raw), s, m.Value, at)
		if err != nil {
			return err
		}
		if one.tier != "" || one.credentials != nil {
			return fault.New(fault.Invalid, "%s has the key tier or credentials, which only a tenant may have", at)
		}
		if rest != nil {
			if one.members, err = glob.Parse("pattern of tenants", rest); err != nil {
				return fault.New(fault.Invalid, "%s %s", at, fault.Message(err)).WithHint("%s", fault.Hint(err))
			}
		}
		if err := t.check(&one.block); err != nil {
			return err
		}
		if one.config, err = t.apply(&one.block); err != nil {
			return err
		}
		t.tiers = append(t.tiers, one)
	}
	return nil
}

// isName reports whether a tier or subset may have a name.
func isName(name string) bool {
	return name != "" && len(name) <= 64 && !strings.ContainsFunc(name, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '_' && r != '-'
	})
}

func (t *Tenants) readOwn(s setting) error {
	if s.node == nil {
		return nil
	}
	for _, m := range section.Members(s.node) {
		uid := m.Key.GetToken().Value
		id, err := tenant.Parse(uid)
		if err != nil {
			return fault.New(fault.Invalid, "%s: tenants: %s", lineOf(s, m.Key), fault.Message(err)).WithHint("%s", fault.Hint(err))
		}
		at := place(lineOf(s, m.Key), "tenants."+uid)
		own := &block{}
		members, err := own.read(tableOf(&t.raw), s, m.Value, at)
		if err != nil {
			return err
		}
		if members != nil {
			return fault.New(fault.Invalid, "%s has the key tenants, which only a tier may have", at)
		}
		if own.tier != "" && t.find(own.tier) == nil {
			return fault.New(fault.Invalid, "%s: there is no tier %.40q%s", at, own.tier, meant(fault.Nearest(own.tier, t.Tiers(), 1)))
		}
		blocks := []*block{own}
		if of := t.find(own.tier); of != nil {
			blocks = []*block{&of.block, own}
		}
		if err := t.check(blocks...); err != nil {
			return err
		}
		t.own[id] = own
	}
	return nil
}

func lineOf(s setting, n ast.Node) string {
	file, _, _ := strings.Cut(s.from, " line ")
	return fmt.Sprintf("%s line %d", file, n.GetToken().Position.Line)
}

// read reads the block of a tier or a tenant, and returns the patterns of a tier's tenants.
func (b *block) read(t *table, s setting, n ast.Node, at string) (tenants []string, err error) {
	b.at = at
	if n.Type() == ast.NullType {
		return nil, nil
	}
	if len(section.Members(n)) == 0 && n.Type() != ast.MappingType {
		return nil, fault.New(fault.Invalid, "%s must contain keys such as servers, profile and sandbox", at)
	}
	file, _, _ := strings.Cut(s.from, " line ")
	f := flattener{name: file, dir: s.dir, structured: t.structured}
	for _, m := range section.Members(n) {
		switch key := m.Key.GetToken().Value; key {
		case "tenants":
			err = patterns(&tenants, m.Value)
		case "servers":
			err = patterns(&b.servers, m.Value)
		case "tools":
			err = patterns(&b.tools, m.Value)
		case "tier":
			err = scalar(&b.tier, m.Value)
		case "credentials":
			err = b.readCredentials(m.Value)
		default:
			f.member("", m)
		}
		if err != nil {
			return nil, fault.New(fault.Invalid, "%s: %s %s", at, m.Key.GetToken().Value, err)
		}
	}
	if _, err := catalog.NewAllow(b.servers, b.tools); err != nil {
		return nil, fault.New(fault.Invalid, "%s %s", at, fault.Message(err)).WithHint("%s", fault.Hint(err))
	}
	if b.settings = f.list; f.err != nil {
		return nil, f.err
	}
	return tenants, b.checkKeys(t)
}

// readCredentials reads the variables of each server. A value is a reference: a secret does not
// belong in the file.
func (b *block) readCredentials(n ast.Node) error {
	b.credentials = map[string]map[string]string{}
	for _, server := range section.Members(n) {
		name := server.Key.GetToken().Value
		var values map[string]string
		if err := mapping(&values, server.Value); err != nil || len(values) == 0 {
			return fmt.Errorf("of server %s must be variables with references, such as API_KEY: ${CUSTOMER_API_KEY}", name)
		}
		for variable, value := range values {
			if !strings.HasPrefix(value, "${") || !strings.HasSuffix(value, "}") {
				return fmt.Errorf("of server %s: %s must be a reference: ${NAME}, ${file:PATH} or ${keyring:SERVICE/ACCOUNT}", name,
					variable)
			}
		}
		b.credentials[name] = values
	}
	return nil
}

// patterns reads a pattern or a list of patterns, which may be empty.
func patterns(to *[]string, n ast.Node) error {
	if seq, ok := n.(*ast.SequenceNode); ok && len(seq.Values) == 0 {
		*to = []string{}
		return nil
	}
	return oneOrMore(to, n)
}

// checkKeys rejects keys that apply to the whole daemon only.
func (b *block) checkKeys(t *table) error {
	for _, s := range b.settings {
		switch {
		case t.keys[s.key].tenant:
		case t.known(s.key):
			return fault.New(fault.Invalid, "%s: %s applies to all tenants; set it outside of tiers and tenants", s.from, s.key)
		default:
			return fault.New(fault.Invalid, "%s: %s has no key %q%s", s.from, strings.TrimPrefix(b.at, s.from+": "), s.key,
				suggestion(s.key, t.ofTenants()))
		}
	}
	return nil
}
