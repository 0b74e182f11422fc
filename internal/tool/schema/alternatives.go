package schema

import (
	"fmt"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// Limits of the message about alternatives.
const (
	maxAlternatives = 4 // that are described
	maxLacks        = 2 // problems of each
)

// alternatives returns the message of a failed anyOf or oneOf: the expected types if all alternatives fail
// by type, or else what each one lacks.
func alternatives(e *jsonschema.ValidationError) string {
	if k, ok := e.ErrorKind.(*kind.OneOf); ok && len(k.Subschemas) == 2 {
		return fmt.Sprintf("fits the alternatives %d and %d, but must fit exactly one", k.Subschemas[0]+1, k.Subschemas[1]+1)
	}
	if want := byType(e); want != "" {
		return want
	}
	const none = "fits none of the allowed alternatives"
	if len(e.Causes) == 0 {
		return none
	}
	shown := meant(e)
	var texts []string
	for _, i := range shown[:min(len(shown), maxAlternatives)] {
		texts = append(texts, fmt.Sprintf("%d %s", i+1, lacks(e, e.Causes[i])))
	}
	if more := len(shown) - len(texts); more > 0 {
		texts = append(texts, fmt.Sprintf("and %d more", more))
	}
	return fmt.Sprintf("fits none of %d alternatives: %s", len(e.Causes), strings.Join(texts, "; "))
}

// byType returns the expected types if all alternatives fail by type, or else "".
func byType(e *jsonschema.ValidationError) string {
	var want []string
	got := ""
	for _, c := range e.Causes {
		for _, leaf := range leaves(c) {
			k, ok := leaf.ErrorKind.(*kind.Type)
			if ok && len(leaf.InstanceLocation) == len(e.InstanceLocation) {
				want, got = append(want, k.Want...), k.Got
			}
		}
	}
	if len(want) < len(e.Causes) || got == "" {
		return ""
	}
	slices.Sort(want)
	return "expected " + anyOf(slices.Compact(want)) + ", got " + withArticle(got)
}

// meant returns the indexes of the alternatives that the value probably means: those whose constants
// its members have, or all.
func meant(e *jsonschema.ValidationError) (all []int) {
	constant := func(leaf *jsonschema.ValidationError) bool {
		switch leaf.ErrorKind.(type) {
		case *kind.Const, *kind.Enum:
			return len(leaf.InstanceLocation) > len(e.InstanceLocation)
		}
		return false
	}
	for i, c := range e.Causes {
		if !slices.ContainsFunc(leaves(c), constant) {
			all = append(all, i)
		}
	}
	if all == nil {
		for i := range e.Causes {
			all = append(all, i)
		}
	}
	return all
}

// lacks returns why the value of e does not fit one of its alternatives.
func lacks(e, alternative *jsonschema.ValidationError) string {
	var texts, missing []string
	more := false
	for _, leaf := range leaves(alternative) {
		at := leaf.InstanceLocation[len(e.InstanceLocation):]
		if k, ok := leaf.ErrorKind.(*kind.Required); ok {
			for _, name := range k.Missing {
				missing = append(missing, join(formatPath(at), name))
			}
			continue
		}
		if more = len(texts) == maxLacks; more {
			break
		}
		texts = append(texts, strings.TrimPrefix(formatPath(at)+" ", " ")+lack(leaf))
	}
	if missing != nil {
		needs := "needs " + strings.Join(missing[:min(len(missing), 2*maxLacks)], ", ")
		texts = append([]string{needs}, texts...)
	}
	if more || len(missing) > 2*maxLacks {
		texts = append(texts, "…")
	}
	return strings.Join(texts, ", ")
}

// lack returns the message of one error in an alternative.
func lack(e *jsonschema.ValidationError) string {
	switch k := e.ErrorKind.(type) {
	case *kind.Type:
		return "must be " + anyOf(k.Want)
	case *kind.Const:
		return "must be " + value(k.Want)
	case *kind.Enum:
		return "must be one of " + values(k.Want)
	case *kind.AnyOf, *kind.OneOf:
		if want := byType(e); want != "" {
			return want
		}
		return fmt.Sprintf("fits none of %d alternatives", len(e.Causes))
	case *kind.AdditionalProperties:
		names := slices.Clone(k.Properties)
		slices.Sort(names)
		return "has no " + clip(strings.Join(names[:min(len(names), maxLacks)], ", "), 100)
	}
	return describe(e)
}
