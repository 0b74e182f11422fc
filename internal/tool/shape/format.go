package shape

import (
	"bytes"
	"slices"
	"time"
)

// maxFormat is the length of the longest string whose format is examined.
const maxFormat = 200

// format returns the format of a JSON string, or "".
func format(b []byte) string {
	b = bytes.TrimSpace(b)
	if len(b) < 3 || len(b) > maxFormat || b[0] != '"' {
		return ""
	}
	text := string(b[1 : len(b)-1])
	switch {
	case isTime(time.DateOnly, text):
		return "date"
	case isTime(time.RFC3339, text):
		return "date-time"
	case len(text) > 8 && (text[:7] == "http://" || text[:8] == "https://"):
		return "uri"
	case isDecimal(text):
		return "decimal"
	}
	return ""
}

func isTime(layout, text string) bool {
	_, err := time.Parse(layout, text)
	return err == nil
}

// isDecimal reports whether a text is a decimal fraction. Digits alone may be an identifier.
func isDecimal(text string) bool {
	whole, fraction, ok := bytes.Cut([]byte(text), []byte("."))
	digits := func(b []byte) bool {
		return len(b) > 0 && len(b) < 16 && !slices.ContainsFunc(b, func(c byte) bool { return c < '0' || c > '9' })
	}
	return ok && digits(bytes.TrimPrefix(whole, []byte("-"))) && digits(fraction)
}

// mergeFormat returns the format of all strings of t and o.
func mergeFormat(t, o Type) string {
	switch {
	case t.Format == o.Format, !slices.Contains(o.Kinds, "string"):
		return t.Format
	case !slices.Contains(t.Kinds, "string"):
		return o.Format
	}
	return ""
}
