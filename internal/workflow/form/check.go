package form

import (
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// check returns a value in the form that its field takes, or why it does not take it. Messages
// contain no part of the value, which may be private.
func check(f *Field, v any) (any, *Problem) {
	bad := func(problem, format string, args ...any) (any, *Problem) {
		return nil, &Problem{f.Name, problem, f.title() + ": " + fmt.Sprintf(format, args...)}
	}
	switch f.Type {
	case boolean:
		if b, ok := truth(v); ok {
			return b, nil
		}
		return bad(wrongType, "a checkbox takes true or false, not %s", typeName(v))
	case choice:
		return checkChoice(f, v)
	case choices:
		return checkChoices(f, v)
	case number, integer:
		n, ok := numeric(v)
		switch {
		case !ok:
			return bad(wrongType, "a number is needed, not %s", typeName(v))
		case f.Type == integer && n != math.Trunc(n):
			return bad(wrongType, "a whole number is needed")
		case f.Minimum != nil && n < *f.Minimum, f.Maximum != nil && n > *f.Maximum:
			return bad(outOfRange, "the number must be %s", rangeText(f))
		}
		return n, nil
	}
	s, ok := scalar(v)
	if !ok {
		return bad(wrongType, "a text is needed, not %s", typeName(v))
	}
	switch {
	case !utf8.ValidString(s) || strings.ContainsFunc(s, isControlCharacter):
		return bad(characters, "the text has control characters")
	case f.Type == email && !looksLikeEmail(s):
		return bad(wrongType, "an e-mail address is needed")
	case f.Type == date:
		if s, ok = inFormat(f, s); !ok {
			return bad(wrongType, "a date is needed, as YYYY-MM-DD%s", orFormat(f))
		}
	case !f.Multiline && strings.ContainsAny(s, "\n\r"):
		return bad(wrongType, "the text has several lines, and the field has one")
	}
	if n := utf8.RuneCountInString(s); f.MaxLength > 0 && n > f.MaxLength {
		return bad(tooLong, "the value has %d characters; at most %d are allowed", n, f.MaxLength)
	}
	if f.Pattern != "" {
		if re, err := regexp.Compile(`^(?:` + f.Pattern + `)$`); err == nil && !re.MatchString(s) {
			return bad(mismatch, "the value does not match the pattern %s", f.Pattern)
		}
	}
	return s, nil
}

func isControlCharacter(r rune) bool {
	return r < ' ' && r != '\n' && r != '\r' && r != '\t' || r == 0x7f
}

func checkChoice(f *Field, v any) (any, *Problem) {
	s, ok := scalar(v)
	if ok {
		if o := findOption(f, s); o != nil {
			return o.Value, nil
		}
		if b, yes := truth(v); yes && len(f.Options) == 2 { // a group of yes and no
			for _, word := range map[bool][]string{true: {"yes", "true", "1"}, false: {"no", "false", "0"}}[b] {
				if o := findOption(f, word); o != nil {
					return o.Value, nil
				}
			}
		}
		if f.Open {
			return s, nil
		}
	}
	return nil, &Problem{f.Name, notOption, fmt.Sprintf("%s: the value is none of the options: %s", f.title(), optionNames(f))}
}

func checkChoices(f *Field, v any) (any, *Problem) {
	list, ok := v.([]any)
	if !ok {
		list = []any{v}
	}
	chosen := []any{}
	for _, x := range list {
		s, _ := scalar(x)
		o := findOption(f, s)
		if o == nil && len(f.Options) > 0 {
			return nil, &Problem{f.Name, notOption, fmt.Sprintf("%s: a value is none of the options: %s", f.title(), optionNames(f))}
		}
		if o != nil {
			x = o.Value
		}
		chosen = append(chosen, x)
	}
	return chosen, nil
}

// findOption finds an option by its value or its label.
func findOption(f *Field, s string) *Option {
	for _, same := range []func(a, b string) bool{func(a, b string) bool { return a == b }, func(a, b string) bool { return strings.EqualFold(strings.TrimSpace(a), strings.TrimSpace(b)) }} {
		for i, o := range f.Options {
			if same(o.Value, s) || o.Label != "" && same(o.Label, s) {
				return &f.Options[i]
			}
		}
	}
	return nil
}

func optionNames(f *Field) string {
	var names []string
	for _, o := range f.Options {
		names = append(names, o.text())
	}
	if len(names) > 12 {
		names = append(names[:12], fmt.Sprintf("and %d more", len(f.Options)-12))
	}
	return strings.Join(names, ", ")
}

func rangeText(f *Field) string {
	switch {
	case f.Minimum != nil && f.Maximum != nil:
		return fmt.Sprintf("from %g to %g", *f.Minimum, *f.Maximum)
	case f.Minimum != nil:
		return fmt.Sprintf("at least %g", *f.Minimum)
	}
	return fmt.Sprintf("at most %g", *f.Maximum)
}

func truth(v any) (value, ok bool) {
	if b, is := v.(bool); is {
		return b, true
	}
	s, _ := scalar(v)
	switch strings.ToLower(strings.TrimSpace(s)) {
	case "true", "yes", "on", "x", "1", "y":
		return true, true
	case "false", "no", "off", "0", "n":
		return false, true
	}
	return false, false
}

func numeric(v any) (float64, bool) {
	s, ok := scalar(v)
	if _, is := v.(bool); is || !ok {
		return 0, false
	}
	n, err := strconv.ParseFloat(strings.TrimSpace(s), 64)
	return n, err == nil && !math.IsInf(n, 0) && !math.IsNaN(n)
}

// scalar returns a text, number or truth value as text.
func scalar(v any) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case json.Number:
		return v.String(), true
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64), true
	case bool:
		return strconv.FormatBool(v), true
	}
	return "", false
}

func typeName(v any) string {
	switch v.(type) {
	case []any:
		return "a list"
	case map[string]any:
		return "an object"
	case bool:
		return "a truth value"
	case float64, json.Number:
		return "a number"
	}
	return "this text"
}

func looksLikeEmail(s string) bool {
	name, host, ok := strings.Cut(s, "@")
	return ok && name != "" && strings.Contains(host, ".") && !strings.ContainsAny(s, " \n,;") && !strings.Contains(host, "@")
}

func isoDate(s string) bool {
	_, err := time.Parse(time.DateOnly, s)
	return err == nil
}

// inFormat converts a date to the format of its field.
func inFormat(f *Field, s string) (string, bool) {
	s = strings.TrimSpace(s)
	layout := goLayout(f.Format)
	for _, from := range []string{time.DateOnly, time.RFC3339, "2006-01-02T15:04:05", "2006-01-02 15:04:05", layout} {
		if t, err := time.Parse(from, s); err == nil {
			return t.Format(layout), true
		}
	}
	return "", false
}

func goLayout(format string) string {
	if format == "" {
		return time.DateOnly
	}
	return strings.NewReplacer("YYYY", "2006", "YY", "06", "MM", "01", "DD", "02", "M", "1", "D", "2").Replace(format)
}

func orFormat(f *Field) string {
	if f.Format == "" || f.Format == "YYYY-MM-DD" {
		return ""
	}
	return " or " + f.Format
}

// shown returns a checked value as text.
func shown(f *Field, v any) string {
	if list, ok := v.([]any); ok {
		var parts []string
		for _, x := range list {
			s, _ := scalar(x)
			parts = append(parts, optionText(f, s))
		}
		return strings.Join(parts, "\n")
	}
	s, _ := scalar(v)
	return s
}

// optionText returns what a person reads for a value of a choice.
func optionText(f *Field, s string) string {
	for _, o := range f.Options {
		if o.Value == s {
			return o.text()
		}
	}
	return s
}

// textsOf returns a value or a list of values as texts.
func textsOf(v any) (all []string) {
	list, ok := v.([]any)
	if !ok {
		list = []any{v}
	}
	for _, x := range list {
		if s, ok := scalar(x); ok {
			all = append(all, s)
		}
	}
	return slices.Compact(all)
}
