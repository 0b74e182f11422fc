package daemon

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/sandpiper-mcp/sandpiper/internal/privacy/redact"
	"github.com/sandpiper-mcp/sandpiper/internal/privacy/vault"
	"github.com/sandpiper-mcp/sandpiper/internal/store/tenant"
)

// redact takes personal data and secrets out of a text that belongs to no tenant,
// such as a line of the log. Nothing restores them.
func (d *Daemon) redact(text string) string {
	nobody := d.nobody.Load()
	if nobody == nil { // there are no servers yet, and no tenants
		return text
	}
	clean, err := nobody.Outward(context.Background(), "", text)
	if err != nil {
		return "[withheld]"
	}
	return clean
}

// redactFor replaces what is private in a text of a tenant's session by tokens. They
// are given to that session, whose code can restore them.
func (d *Daemon) redactFor(ctx context.Context, id tenant.ID, v *vault.Vault, session, text string) (string, error) {
	return d.Privacy.For(redact.Owner{Tenant: id, Vault: v, Session: session}).Outward(ctx, "", text)
}

// redacting is a handler of the log that redacts each text. Servers, tools and hooks
// have their words in errors, and the log is shown to people who may not know what a
// tenant's code knows.
type redacting struct {
	slog.Handler
	redact func(string) string
}

// Handle implements slog.Handler.
func (h redacting) Handle(ctx context.Context, r slog.Record) error {
	clean := slog.NewRecord(r.Time, r.Level, h.redact(r.Message), r.PC)
	r.Attrs(func(a slog.Attr) bool {
		clean.AddAttrs(h.attr(a))
		return true
	})
	return h.Handler.Handle(ctx, clean)
}

// WithAttrs implements slog.Handler.
func (h redacting) WithAttrs(attrs []slog.Attr) slog.Handler {
	clean := make([]slog.Attr, len(attrs))
	for i, a := range attrs {
		clean[i] = h.attr(a)
	}
	return redacting{h.Handler.WithAttrs(clean), h.redact}
}

// WithGroup implements slog.Handler.
func (h redacting) WithGroup(name string) slog.Handler {
	return redacting{h.Handler.WithGroup(name), h.redact}
}

// attr redacts what an attribute says. Numbers, times and flags are left.
func (h redacting) attr(a slog.Attr) slog.Attr {
	switch v := a.Value.Resolve(); v.Kind() {
	case slog.KindString:
		a.Value = slog.StringValue(h.redact(v.String()))
	case slog.KindAny:
		a.Value = slog.StringValue(h.redact(fmt.Sprintf("%+v", v.Any())))
	case slog.KindGroup:
		var clean []slog.Attr
		for _, of := range v.Group() {
			clean = append(clean, h.attr(of))
		}
		a.Value = slog.GroupValue(clean...)
	}
	return a
}
