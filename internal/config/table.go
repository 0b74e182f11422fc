package config

import (
	"cmp"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/sandpiper-mcp/sandpiper/internal/config/section"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/policy"
)

// Section is the configuration of a feature. Fields that are not set add nothing.
type Section struct {
	// Settings returns a pointer to a struct whose fields are keys, as package section describes, with the name of
	// their section before theirs. When all keys are read, a method Complete(Given) error of the struct is called,
	// which may change it, and then a method Check() error; when the configuration is complete, a method
	// Loaded(*Config) error, which may change it; when that of a tenant is, a method OfTenant(*Config), likewise.
	Settings func() any
	// Sandbox is a kind of sandbox, for sandbox.backend and rules of the policy; the zero one is none.
	Sandbox       Sandbox
	Profile       Profile          // one feature at most has it
	Authorization AuthorizationKey // one feature at most has it
	// Entry returns an entry of catalog, to be read; one feature at most has it.
	Entry func() CatalogEntry
}

// Sandbox is a kind of sandbox that a feature adds.
type Sandbox struct {
	policy.Sandbox
	About string // what it does, for messages, such as "runs each in a virtual machine"
	// Former is the sandbox_type of former systems that selects it; "" means none.
	Former string
	// Weak reports that it does not isolate with the settings of a configuration: a project may select it in place of
	// process only. Nil means never.
	Weak func(*Config) bool
}

// Profile is a value of the key profile of a daemon whose clients get what the feature offers, instead of
// tools of the core.
type Profile struct {
	Name  string
	About string // for the help of serve
}

// table has the keys of a program.
type table struct {
	keys      map[string]key
	sections  map[string]bool   // keys that contain other keys
	short     map[string]string // section -> the key that a text in its place sets
	features  []Section
	sandboxes []Sandbox           // of features, the weakest first
	entry     func() CatalogEntry // nil if catalog has only files
	profile   string              // of a feature; "" if none has one
	auth      AuthorizationKey
}

// core is the table without features.
var core = newTable(nil)

func newTable(features []Section) *table {
	t := &table{keys: maps.Clone(coreKeys), sections: map[string]bool{}, short: map[string]string{}, features: features}
	for _, s := range features {
		if s.Entry != nil {
			t.entry = s.Entry
		}
		if s.Sandbox.Name != "" {
			t.sandboxes = append(t.sandboxes, s.Sandbox)
		}
		if s.Profile.Name != "" {
			t.profile = s.Profile.Name
		}
		if s.Authorization.New != nil {
			t.auth = s.Authorization
		}
		if s.Settings == nil {
			continue
		}
		of := reflect.TypeOf(s.Settings()).Elem()
		for name, k := range tagged(s.Settings(), func(c *Config) any { return c.Features.of(of) }) {
			if t.known(name) {
				panic("two keys are named " + name)
			}
			t.keys[name] = k
		}
		for _, f := range section.Fields(s.Settings()) {
			if f.Short {
				t.short[f.Name[:strings.LastIndexByte(f.Name, '.')]] = f.Name
			}
		}
	}
	slices.SortFunc(t.sandboxes, func(a, b Sandbox) int { return cmp.Compare(a.Strength, b.Strength) })
	add := func(key string) {
		for i := range key {
			if key[i] == '.' {
				t.sections[key[:i]] = true
			}
		}
	}
	for name := range t.keys {
		add(name)
	}
	for section := range families {
		add(section + ".")
	}
	return t
}

// known reports whether key is a key, or a section.
func (t *table) known(key string) bool {
	_, ok := t.keys[key]
	_, _, named := familyOf(key)
	return ok || named || t.sections[key]
}

// structured reports whether the value of a key, or of one of a former system, is a list or a mapping.
func (t *table) structured(name string) bool {
	return t.keys[name].structured || name == "mcp_servers" || name == "execution.allow_network_access"
}

// within returns the keys of a section, without its name.
func (t *table) within(section string) (list []string) {
	for k := range t.keys {
		if rest, ok := strings.CutPrefix(k, section+"."); ok {
			list = append(list, rest)
		}
	}
	slices.Sort(list)
	return list
}

// merge returns the merge function of a key; nil means that a project cannot set it.
func (t *table) merge(key string) merge {
	if k, ok := t.keys[key]; ok {
		return k.project
	}
	if of, name, ok := familyOf(key); ok && of.project != nil {
		return of.project(name)
	}
	return nil
}

// ofTenants are the keys that a tier or a tenant may set.
func (t *table) ofTenants() map[string]key {
	all := maps.Clone(t.keys)
	maps.DeleteFunc(all, func(_ string, k key) bool { return !k.tenant })
	return all
}

// unknown returns the error of an unknown key.
func (t *table) unknown(s setting) error {
	if t.sections[s.key] {
		if s.kind == "mapping" || s.kind == "" && s.text == "" {
			return nil // an empty section
		}
		if _, named := families[s.key]; named {
			return fault.New(fault.Invalid, "%s: %s must map names to values, such as NAME: VALUE", s.from, s.key)
		}
		return fault.New(fault.Invalid, "%s: %s must contain keys such as %s", s.from, s.key, strings.Join(t.within(s.key), ", "))
	}
	if section, _, nested := strings.Cut(s.key, "."); nested && s.top != "" && !t.known(section) && len(t.within(section)) == 0 {
		s.key, s.from = section, s.top
	}
	return fault.New(fault.Invalid, "%s: there is no key %q%s", s.from, s.key, suggestion(s.key, t.keys))
}

// Features are the settings of features.
type Features struct {
	table  *table
	values map[reflect.Type]any // pointers, by what they point to
}

// newFeatures returns settings without defaults: those of a project, which only tighten others.
func newFeatures(t *table) *Features {
	f := &Features{t, map[reflect.Type]any{}}
	for _, s := range t.features {
		if s.Settings != nil {
			v := s.Settings()
			f.values[reflect.TypeOf(v).Elem()] = v
		}
	}
	return f
}

// Profiles returns the values of profile of a program with features.
func Profiles(features []Section) []string { return newFeatures(newTable(features)).profiles() }

func (f *Features) profiles() []string {
	all := []string{"lean", "standard", "full"}
	if f != nil && f.table.profile != "" {
		all = append(all, f.table.profile)
	}
	return all
}

// withDefaults sets what has no setting.
func (f *Features) withDefaults() *Features {
	for _, v := range f.values {
		section.SetDefaults(v)
	}
	return f
}

// clone returns a copy, of which settings can be replaced.
func (f *Features) clone() *Features {
	if f == nil {
		return nil
	}
	all := &Features{f.table, map[reflect.Type]any{}}
	for of, v := range f.values {
		next := reflect.New(of)
		next.Elem().Set(reflect.ValueOf(v).Elem())
		all.values[of] = next.Interface()
	}
	return all
}

// of returns a pointer to settings, which have their defaults in a configuration that was not loaded.
func (f *Features) of(t reflect.Type) any {
	if f != nil && f.values[t] != nil {
		return f.values[t]
	}
	v := reflect.New(t).Interface()
	section.SetDefaults(v)
	return v
}

// complete calls the methods Complete of features.
func (f *Features) complete(g Given) error {
	for _, v := range f.values {
		if c, ok := v.(interface{ Complete(Given) error }); ok {
			if err := c.Complete(g); err != nil {
				return err
			}
		}
	}
	return nil
}

// check checks the settings of each feature.
func (f *Features) check() error {
	for _, v := range f.values {
		if c, ok := v.(section.Checker); ok {
			if err := c.Check(); err != nil {
				return err
			}
		}
	}
	return nil
}

// loaded calls the methods Loaded of features.
func (f *Features) loaded(c *Config) error {
	for _, v := range f.values {
		if l, ok := v.(interface{ Loaded(*Config) error }); ok {
			if err := l.Loaded(c); err != nil {
				return err
			}
		}
	}
	return nil
}

// ofTenant calls the methods OfTenant of features with the configuration of a tenant.
func (f *Features) ofTenant(c *Config) {
	if f == nil {
		return
	}
	for _, v := range f.values {
		if o, ok := v.(interface{ OfTenant(*Config) }); ok {
			o.OfTenant(c)
		}
	}
}

// Of returns the settings of a feature. They are not changed once a daemon has the configuration.
func Of[T any](c *Config) *T { return c.Features.of(reflect.TypeFor[T]()).(*T) }

// sandboxes returns the kinds of sandboxes, the weakest first; none in a configuration that was not loaded.
func (f *Features) sandboxes() []Sandbox {
	if f == nil {
		return nil
	}
	return f.table.sandboxes
}

// sandbox returns the kind of sandbox with a name, the zero one if there is none.
func (f *Features) sandbox(name string) Sandbox {
	for _, s := range f.sandboxes() {
		if s.Name == name {
			return s
		}
	}
	return Sandbox{}
}

// table returns the keys that c was loaded with.
func tableOf(c *Config) *table {
	if c.Features == nil {
		return core
	}
	return c.Features.table
}
