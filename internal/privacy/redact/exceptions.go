package redact

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect/known"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/vault"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
	"github.com/sandpiper-mcp/sandpiper/internal/tool"
)

// Exception is a rule for values that are detected and not private. All of its fields must
// match; an empty one matches everything. An exception with a tool or a key applies to
// answers of tools only: where code prints a value, it could write any key before it.
type Exception struct {
	Types []detect.Type `key:"types"`
	Tool  string        `key:"tool"`  // "server.tool", where * matches any letters
	Key   string        `key:"key"`   // case and separators are ignored
	Value string        `key:"value"` // case is ignored

	id string // of a stored exception
}

// Validate reports whether the exception limits what it applies to.
func (e Exception) Validate() error {
	if len(e.Types) == 0 && e.Tool == "" && e.Key == "" && e.Value == "" {
		return fault.New(fault.Invalid, "it applies to everything").WithHint("add a type, tool, key or value; pii.mode off redacts nothing")
	}
	if e.Key != "" && detect.SameKey(e.Key, "") {
		return fault.New(fault.Invalid, "key %.60q has no letter or digit", e.Key)
	}
	return checkPattern(e.Tool)
}

// isScoped reports whether the exception applies to answers of tools only.
func (e Exception) isScoped() bool { return e.Tool != "" || e.Key != "" }

func (e Exception) matchesType(t detect.Type) bool {
	return len(e.Types) == 0 || slices.Contains(e.Types, t)
}

func (e Exception) matchesValue(value string) bool {
	return e.Value == "" || strings.EqualFold(strings.Join(strings.Fields(e.Value), " "), strings.Join(strings.Fields(value), " "))
}

// exceptions returns the exceptions for a value of a type.
func (s *scope) exceptions(t detect.Type, value string) (all []Exception) {
	for _, e := range s.rules.cfg.Exceptions {
		if e.matchesType(t) && e.matchesValue(value) {
			all = append(all, e)
		}
	}
	for _, stored := range s.vault().exceptionsFor(value) {
		e := Exception{Tool: stored.Tool, Key: stored.Key, id: stored.ID}
		if stored.Type == "" || stored.Type == t {
			all = append(all, e)
		}
	}
	return all
}

// isExempt reports whether a value is not personal, wherever it occurs.
func (s *scope) isExempt(t detect.Type, value string) bool {
	return s.rules.isExempt(t, value) || slices.ContainsFunc(s.exceptions(t, value), func(e Exception) bool { return !e.isScoped() })
}

// isAllowed reports whether a value occurred where an exception applies, and nowhere else: it
// is neither stored nor indexed.
func (s *scope) isAllowed(t detect.Type, value string) bool {
	id, ok := s.rules.allowed.get(s.owner.Tenant, t, value)
	return ok && slices.ContainsFunc(s.exceptions(t, value), func(e Exception) bool { return e.isScoped() && e.id == id }) &&
		!s.vault().isKnown(vault.Value{Type: t, Text: value})
}

// hasExceptionFor reports whether an exception names a tool or a key that an answer of this
// tool may contain.
func (s *scope) hasExceptionFor(ref tool.Ref) bool {
	scoped := func(e Exception) bool { return e.isScoped() && matchesTool(e.Tool, ref) }
	if slices.ContainsFunc(s.rules.cfg.Exceptions, scoped) {
		return true
	}
	return s.owner.Vault != nil && s.owner.Vault.Exceptions.Has(func(tool,
		key string) bool {
		return scoped(Exception{Tool: tool, Key: key})
	})
}

// skips reports whether an exception applies to a value in an answer of a tool, and records
// the value if so. A value that the index cannot hold stays private, since its occurrences
// elsewhere would be unknown.
func (s *scope) skips(ref tool.Ref, f detect.Finding, key, text string) bool {
	value := text[f.Start:f.End]
	for _, e := range s.exceptions(f.Type, value) {
		if e.isScoped() && (e.Tool == "" || ref != tool.Ref{} && matchesTool(e.Tool, ref)) &&
			(e.Key == "" || detect.SameKey(e.Key, keyBefore(text, f.Start, key))) && known.CanHold(value) {
			s.rules.allowed.put(s.owner.Tenant, f.Type, value, e.id)
			return true
		}
	}
	return false
}

// keyBefore returns the key whose value begins at start, as in `"build": "1.2.3.4"`. At the
// beginning of the text this is otherwise.
func keyBefore(text string, start int, otherwise string) string {
	before := strings.TrimRight(text[max(0, start-maxKeyDistance):start], `"'\ `)
	if before == "" && start < maxKeyDistance {
		return otherwise
	}
	if !strings.HasSuffix(before, ":") && !strings.HasSuffix(before, "=") {
		return ""
	}
	before = strings.TrimRight(before[:len(before)-1], `"'\ `)
	return before[strings.LastIndexFunc(before, func(r rune) bool { return r != '_' && r != '-' && r != ' ' && !isWord(r) })+1:]
}

const maxKeyDistance = 100

// allowedValues holds values of answers that an exception applies to. Without them code would
// be unable to show a value separately from its key.
type allowedValues struct {
	mu  sync.Mutex
	ids map[allowedValue]string // of the exception, "" for one of the configuration
}

type allowedValue struct {
	tenant tenant.ID
	typ    detect.Type
	text   string
}

// maxAllowed limits the values; when it is reached, all are removed.
const maxAllowed = 10_000

func (a *allowedValues) put(id tenant.ID, t detect.Type, text, exception string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ids == nil || len(a.ids) >= maxAllowed {
		a.ids = map[allowedValue]string{}
	}
	a.ids[allowedValue{id, t, strings.Clone(text)}] = exception
}

func (a *allowedValues) get(id tenant.ID, t detect.Type, text string) (exception string, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	exception, ok = a.ids[allowedValue{id, t, text}]
	return exception, ok
}

// Explained is a value in a text, with the reason why it is found.
type Explained struct {
	detect.Explanation
	Shown string // why a model is shown it; "" if it is replaced
}

// Explain returns the values in a text with the reasons, and the near misses. It stores
// nothing.
func (e *Gate) Explain(ctx context.Context, text string) ([]Explained, []detect.NearMiss, error) {
	active, err := e.active()
	if err == nil && !active {
		err = errOff
	}
	if err == nil {
		err = e.scope.vault().refreshIndex(ctx)
	}
	if err != nil {
		return nil, nil, err
	}
	found, near := e.scope.rules.cfg.Scanner.Explain(text)
	for _, k := range e.scope.vault().find(text) {
		if !slices.ContainsFunc(found, func(f detect.Explanation) bool { return f.Start < k.End && k.Start < f.End }) {
			found = append(found, detect.Explanation{Finding: k, Rule: "known value", Evidence: []string{"it is in the vault"}})
		}
	}
	slices.SortFunc(found, func(a, b detect.Explanation) int { return a.Start - b.Start })
	all := make([]Explained, len(found))
	for i, f := range found {
		all[i] = Explained{f, e.scope.shownBecause(f.Type, text[f.Start:f.End])}
	}
	return all, near, nil
}

// shownBecause returns why a model is shown a value, "" if it is replaced.
func (s *scope) shownBecause(t detect.Type, value string) string {
	if s.rules.isExempt(t, value) {
		if t == detect.IPAddress {
			return "the address is not public (pii.addresses)"
		}
		return "it is the name of a tool or server"
	}
	for _, e := range s.exceptions(t, value) {
		switch {
		case e.isScoped():
		case e.id != "":
			return "exception " + e.id
		default:
			return "pii.exceptions"
		}
	}
	return ""
}
