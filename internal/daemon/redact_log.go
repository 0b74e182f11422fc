package daemon

import (
	"context"
	"fmt"
	"log/slog"
)

// redacting is a log handler that redacts all text: errors contain text from servers,
// tools and hooks, and readers of the log may not see a tenant's data.
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

// attr redacts the text of an attribute, but not numbers, times and booleans.
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
