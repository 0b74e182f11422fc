package redact

import (
	"context"

	"golang.org/x/sync/errgroup"

	"github.com/sandpiper-mcp/sandpiper/internal/privacy/detect"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/vault"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

// Owner identifies the tenant and session that a Gate is for.
type Owner struct {
	Tenant     tenant.ID
	Vault      *vault.Vault // nil: every value is redacted and cannot be restored
	Session    string       // "": none
	Execution  string       // "": none
	Local      *LocalTokens // tokens of the running interpreter in mode Strict, else nil
	ModelInput ModelInput   // what the model wrote in the current call; its values are not replaced, except in mode Strict
}

// scope is what a Gate and its parts share: the rules, and the owner that they are
// applied for.
type scope struct {
	rules   *Rules
	owner   Owner
	pending errgroup.Group // what still reads texts, such as to index their values
	reading chan struct{}  // has an element for each of them that runs
}

// isZero reports whether the scope is that of a zero Gate or of zero Rules.
func (s *scope) isZero() bool { return s == nil || s.rules == nil || s.rules.cfg.Mode == "" }

// active reports whether values are replaced and restored: in every mode but Off. It
// fails for a zero scope.
func (s *scope) active() (bool, error) {
	if s.isZero() {
		return false, ErrNotRedacted
	}
	return s.rules.cfg.Mode != Off, nil
}

// isStrict reports whether code sees tokens instead of values.
func (s *scope) isStrict() bool { return s.isZero() || s.rules.cfg.Mode == Strict }

// record writes a transfer of the owner to the audit log.
func (s *scope) record(ctx context.Context, c Transfer) error {
	if s.rules.cfg.Record == nil {
		return nil
	}
	c.Tenant, c.Session, c.Execution = s.owner.Tenant, s.owner.Session, s.owner.Execution
	return s.rules.cfg.Record(ctx, c)
}

func (s *scope) vault() vaultSession { return vaultSession{s.owner.Vault, s.owner.Session} }

// findForModel returns a finder that skips what a model may see.
func (s *scope) findForModel() finder { return s.finder(s.mayModelSee) }

// findAll returns a finder that skips nothing.
func (s *scope) findAll() finder {
	return s.finder(func(detect.Type, string) bool { return false })
}

// findPersonal returns a finder that skips what is not personal.
func (s *scope) findPersonal() finder { return s.finder(s.isExempt) }

func (s *scope) finder(exempt func(detect.Type, string) bool) finder {
	return finder{scanner: s.rules.cfg.Scanner, vault: s.vault(), exempt: exempt}
}

// mayModelSee reports whether a value is not personal, or the model wrote it in this
// call.
func (s *scope) mayModelSee(t detect.Type, value string) bool {
	return s.isExempt(t, value) || s.isAllowed(t, value) || !s.isStrict() && s.owner.ModelInput.contains(value)
}

// redactionFor returns the redaction toward the model for the values that f finds.
func (s *scope) redactionFor(f finder) *redaction {
	v := s.vault()
	return &redaction{
		turn:     s.turn,
		search:   search{find: f.find, adjustKey: s.rules.cfg.Scanner.Person, findSpread: f.findSpread, learn: v.learn},
		replacer: replacer{disclosed: v.disclosed, createTokens: v.createTokens, local: s.owner.Local},
	}
}

// largeText is the size from which a text is processed in turns.
const largeText = 64 << 10

// perByte is the memory that processing a text takes, in addition to the text, by its length.
const perByte = 5

// turn waits for the owner's turn to process a text of n bytes.
func (s *scope) turn(ctx context.Context, n int) (done func(), err error) {
	if n < largeText || s.rules.cfg.Turn == nil {
		return func() {}, nil
	}
	return s.rules.cfg.Turn(ctx, s.owner.Tenant, perByte*n)
}
