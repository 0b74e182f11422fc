package section

import (
	"encoding"
	"fmt"
	"net/url"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/sandpiper-mcp/sandpiper/internal/clock"
	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

var (
	textType     = reflect.TypeFor[encoding.TextUnmarshaler]()
	setterType   = reflect.TypeFor[Setter]()
	nodeType     = reflect.TypeFor[NodeSetter]()
	durationType = reflect.TypeFor[time.Duration]()
)

// A Setter reads itself from a text. The error continues a sentence that begins with the key.
type Setter interface{ SetText(text string) error }

// A NodeSetter reads itself from a list or a mapping of a file. The error continues a sentence that begins with the
// key, or begins with the key itself.
type NodeSetter interface {
	SetNode(key string, n ast.Node, from Source) error
}

// isNode reports whether a type, or what it points to, reads itself from a list or a mapping.
func isNode(t reflect.Type) bool {
	return t.Kind() == reflect.Pointer && t.Implements(nodeType) || reflect.PointerTo(t).Implements(nodeType)
}

// isText reports whether a type reads itself from a text.
func isText(t reflect.Type) bool {
	return reflect.PointerTo(t).Implements(textType) || reflect.PointerTo(t).Implements(setterType)
}

// SetText reads the text of a single value into the struct that to points to. The error continues a sentence
// that begins with the key.
func (f Field) SetText(to any, text string, from Source) error {
	return setText(f.of(to), f.tag, text, from)
}

func setText(v reflect.Value, tag reflect.StructTag, text string, from Source) error {
	if own, ok := v.Addr().Interface().(Setter); ok {
		return own.SetText(text)
	}
	if own, ok := v.Addr().Interface().(encoding.TextUnmarshaler); ok {
		if err := own.UnmarshalText([]byte(text)); err != nil {
			return invalid("is %.60q: %s", text, fault.Message(err))
		}
		return nil
	}
	form := tag.Get("form")
	switch {
	case v.Type() == durationType:
		return setDuration(v, tag, text)
	case strings.HasPrefix(form, "megabytes"):
		return setMegabytes(v, tag, text)
	case v.Kind() == reflect.Bool:
		if text != "true" && text != "false" {
			return Must(text, "true or false")
		}
		v.SetBool(text == "true")
		return nil
	case v.CanInt():
		n, err := number(tag, text)
		v.SetInt(n)
		return err
	case tag.Get("allow") != "":
		err := OneOf(text, strings.Fields(tag.Get("allow"))...)
		if err == nil {
			v.SetString(text)
		}
		return err
	case form == "path":
		path, err := Path(text, from)
		v.SetString(path)
		return err
	case form == "url":
		if err := checkURL(text); err != nil {
			return err
		}
	case form == "address":
		if !strings.HasPrefix(text, "http://") && !strings.HasPrefix(text, "https://") && !strings.HasPrefix(text, "${") {
			return invalid("must begin with http:// or https://")
		}
	case form == "secret":
		if !strings.Contains(text, "${") {
			return invalid("must be a reference, ${NAME} or ${file:PATH}: this file is no place for it")
		}
	case form == "reference":
		if err := checkReference(text); err != nil {
			return err
		}
	default:
		if text == "" && form != "text" || len(text) > 1000 || strings.ContainsFunc(text, isControl) {
			return Must(text, "a name on one line")
		}
	}
	v.SetString(text)
	return nil
}

func invalid(format string, args ...any) error { return fault.New(fault.Invalid, format, args...) }

// Must returns the error of a value that is not as it must be.
func Must(text, allowed string, args ...any) error {
	return invalid("is %q; it must be %s", text, fmt.Sprintf(allowed, args...))
}

// OneOf reports that a text is none of some words.
func OneOf(text string, allowed ...string) error {
	if slices.Contains(allowed, text) {
		return nil
	}
	list := strings.Join(allowed[:len(allowed)-1], ", ") + " or " + allowed[len(allowed)-1]
	if near := fault.Nearest(text, allowed, 1); near != nil {
		list += "; did you mean " + near[0] + "?"
	}
	return Must(text, "%s", list)
}

// Whole reads a whole number.
func Whole(text string, least, most int64) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < least || n > most {
		return 0, Must(text, "a whole number from %d to %d", least, most)
	}
	return n, nil
}

func number(tag reflect.StructTag, text string) (int64, error) {
	least, most := span(tag)
	from, _ := strconv.ParseInt(least, 10, 64)
	to, err := strconv.ParseInt(most, 10, 64)
	if err != nil {
		from, to = 1, 1<<30
	}
	return Whole(text, from, to)
}

func span(tag reflect.StructTag) (least, most string) {
	least, most, _ = strings.Cut(tag.Get("range"), " ")
	return least, most
}

// setMegabytes reads a number of megabytes into one of bytes.
func setMegabytes(v reflect.Value, tag reflect.StructTag, text string) error {
	if text == "never" && strings.HasSuffix(tag.Get("form"), "never") {
		v.SetInt(0)
		return nil
	}
	n, err := number(tag, text)
	v.SetInt(n << 20)
	return err
}

// Duration reads a time such as 30s, or a number of seconds, of at most a day.
func Duration(text string) (time.Duration, error) {
	d, err := clock.ParseDuration(text)
	if n, bad := strconv.ParseFloat(text, 64); bad == nil && n < 1e6 {
		d, err = time.Duration(n*float64(time.Second)), nil
	}
	if err != nil || d <= 0 || d > 24*time.Hour {
		return 0, Must(text, "a time of at most 24h, such as 30s or 5m")
	}
	return d, nil
}

// Age reads a time of up to a hundred years; never means 0, no limit.
func Age(text string) (time.Duration, error) {
	if text == "0" || text == "never" {
		return 0, nil
	}
	d, err := clock.ParseDuration(text)
	if err != nil || d <= 0 || d > 100*365*24*time.Hour {
		return 0, Must(text, "a time such as 30d or 12h, or never")
	}
	return d, nil
}

func setDuration(v reflect.Value, tag reflect.StructTag, text string) (err error) {
	var d time.Duration
	least, most := span(tag)
	switch {
	case tag.Get("form") == "age":
		d, err = Age(text)
	case most != "":
		d, err = clock.ParseDuration(text)
		from, _ := clock.ParseDuration(least)
		to, _ := clock.ParseDuration(most)
		if err != nil || d < from || d > to {
			return Must(text, "a time from %s to %s, such as 90s, 10m or 1d", least, most)
		}
	default:
		d, err = Duration(text)
	}
	if err == nil {
		v.SetInt(int64(d))
	}
	return err
}

// Path returns the absolute path of a text.
func Path(text string, from Source) (string, error) {
	if text == "" || strings.ContainsRune(text, 0) {
		return "", Must(text, "a path")
	}
	if from.Home != "" && (text == "~" || strings.HasPrefix(text, "~/")) {
		text = from.Home + text[1:]
	}
	if !filepath.IsAbs(text) {
		text = filepath.Join(from.Dir, text)
	}
	return filepath.Clean(text), nil
}

// checkURL reports that a text is no URL without credentials, or a reference to one.
func checkURL(text string) error {
	u, err := url.Parse(text)
	if strings.HasPrefix(text, "${") || err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" && u.User == nil &&
		u.RawQuery == "" && u.Fragment == "" {
		return nil
	}
	return invalid("must be a URL with http:// or https:// and without user, query and fragment")
}

// checkReference reports that a text is no reference to a secret. It does not repeat the text.
func checkReference(text string) error {
	if strings.HasPrefix(text, "${") && strings.IndexByte(text, '}') == len(text)-1 {
		return nil
	}
	return fault.New(fault.Invalid, "must be a reference to the key, not the key").
		WithHint("write ${OPENAI_API_KEY} for a variable, or ${file:/run/secrets/key} for a file")
}

func isControl(r rune) bool { return r < ' ' || r == 0x7f }
