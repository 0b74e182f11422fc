package task_test

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// sentence is a task of testdata/tasks, whose README describes the members.
type sentence struct {
	ID          string   `json:"id"`
	Text        string   `json:"text"`
	Paraphrases []string `json:"paraphrases"`
	Tools       []string `json:"tools"`
	Setup       struct {
		Files map[string]string `json:"files"`
		Code  string            `json:"code"`
	} `json:"setup"`
	Reference string `json:"reference"`
	Want      want   `json:"want"`
}

// want judges the outcome of a program.
type want struct {
	Result   any            `json:"result"`
	Contains []any          `json:"contains"`
	Lacks    []any          `json:"lacks"`
	Files    map[string]any `json:"files"`
	Missing  []string       `json:"missing"`
	Check    string         `json:"check"` // its result is judged instead
}

// sentences reads dev.json or heldout.json.
func sentences(t *testing.T, name string) []sentence {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "tasks", name))
	if err != nil {
		t.Fatal(err)
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	var all []sentence
	if err := d.Decode(&all); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return all
}

// Messages of these tests contain ids and no texts, so that heldout.json stays unread.
func TestTaskSet(t *testing.T) {
	seen := map[string]bool{}
	for name, counts := range map[string]struct{ one, two, missing int }{"dev.json": {33, 13, 3}, "heldout.json": {17, 7, 2}} {
		got := counts
		got.one, got.two, got.missing = 0, 0, 0
		for _, s := range sentences(t, name) {
			checkSentence(t, s)
			for _, text := range append([]string{s.ID, s.Text}, s.Paraphrases...) {
				if text == "" || seen[text] {
					t.Errorf("%s: an id or a text is empty or occurs twice", s.ID)
				}
				seen[text] = true
			}
			switch len(s.Tools) {
			case 1:
				got.one++
			case 2:
				got.two++
			}
			if s.Want.Missing != nil {
				got.missing++
			}
		}
		if got != counts {
			t.Errorf("%s has %+v tasks, want %+v", name, got, counts)
		}
	}
	for _, s := range sentences(t, "dev.json") {
		delete(seen, s.Text)
	}
	for _, text := range []string{"Calculate 5 + 3", "Get weather for New York and Paris, which is warmer?",
		"Read data.csv, sum the amount column, write the total to total.txt"} {
		if seen[text] {
			t.Errorf("%q is not in dev.json", text)
		}
	}
}

func checkSentence(t *testing.T, s sentence) {
	t.Helper()
	w := s.Want
	judged := w.Result != nil || w.Contains != nil || w.Files != nil
	switch {
	case len(s.Tools) < 1 || len(s.Tools) > 2:
		t.Errorf("%s has %d tools", s.ID, len(s.Tools))
	case len(s.Paraphrases) < 1 || len(s.Paraphrases) > 2:
		t.Errorf("%s has %d paraphrases", s.ID, len(s.Paraphrases))
	case w.Missing == nil && (s.Reference == "" || !judged):
		t.Errorf("%s has no reference, or wants nothing", s.ID)
	case w.Missing != nil && (s.Reference != "" || judged || w.Check != "" || len(w.Missing) == 0):
		t.Errorf("%s misses a value and has a reference or other wants", s.ID)
	}
}

// holds reports whether an outcome is the wanted one. Files has the content of the served
// directory.
func (w want) holds(result any, files map[string]string) bool {
	if w.Result != nil && !isValue(result, w.Result) {
		return false
	}
	has := func(item any) bool { return contains(result, item) }
	if slices.ContainsFunc(w.Lacks, has) || !all(w.Contains, has) {
		return false
	}
	for name, content := range w.Files {
		text, found := files[name]
		switch content := content.(type) {
		case nil:
			if found {
				return false
			}
		case []any:
			if !found || !all(content, func(item any) bool { return containsText(text, item) }) {
				return false
			}
		default:
			if !found || !same(text, content) {
				return false
			}
		}
	}
	return true
}

func all(items []any, holds func(any) bool) bool {
	return !slices.ContainsFunc(items, func(item any) bool { return !holds(item) })
}

// isValue reports whether got is the value, a member of got is, or the only element is.
func isValue(got, value any) bool {
	if same(got, value) {
		return true
	}
	switch got := got.(type) {
	case map[string]any:
		for _, member := range got {
			if same(member, value) || len(got) == 1 && isValue(member, value) {
				return true
			}
		}
	case []any:
		return len(got) == 1 && isValue(got[0], value)
	}
	return false
}

// same compares numbers by value and texts without space at their ends.
func same(got, value any) bool {
	if n, ok := number(value); ok {
		g, ok := number(got)
		return ok && math.Abs(g-n) <= 1e-9*math.Max(1, math.Abs(n))
	}
	switch value := value.(type) {
	case string:
		text, ok := got.(string)
		return ok && strings.TrimSpace(text) == strings.TrimSpace(value)
	case []any:
		list, ok := got.([]any)
		return ok && slices.EqualFunc(list, value, same)
	case map[string]any:
		object, ok := got.(map[string]any)
		return ok && len(object) == len(value) && hasMembers(object, value)
	}
	return got == value
}

func hasMembers(object, members map[string]any) bool {
	for name, value := range members {
		if got, ok := object[name]; !ok || !same(got, value) {
			return false
		}
	}
	return true
}

// number returns a number, also of a text that is one.
func number(v any) (float64, bool) {
	switch v := v.(type) {
	case float64:
		return v, true
	case string:
		n, err := strconv.ParseFloat(strings.TrimSpace(v), 64)
		return n, err == nil
	}
	return 0, false
}

// contains reports whether an item is a part of got, at any depth.
func contains(got, item any) bool {
	switch got := got.(type) {
	case map[string]any:
		if members, ok := item.(map[string]any); ok && hasMembers(got, members) {
			return true
		}
		for _, member := range got {
			if contains(member, item) {
				return true
			}
		}
		return false
	case []any:
		return slices.ContainsFunc(got, func(element any) bool { return contains(element, item) })
	case string:
		return containsText(got, item)
	}
	return same(got, item)
}

// containsText reports whether an item is in a text, or in the JSON that the text is.
func containsText(text string, item any) bool {
	if part, ok := item.(string); ok && strings.Contains(text, part) {
		return true
	}
	var v any
	if json.Unmarshal([]byte(text), &v) == nil {
		if _, plain := v.(string); !plain && contains(v, item) {
			return true
		}
	}
	n, ok := item.(float64)
	return ok && slices.ContainsFunc(strings.FieldsFunc(text, func(r rune) bool { return !strings.ContainsRune("+-.0123456789eE", r) }),
		func(word string) bool {
			return same(strings.TrimRight(word, "."), n)
		})
}

func TestHolds(t *testing.T) {
	files := map[string]string{"total.txt": "61.750\n", "a.json": `{"city": "Bergen", "high": [3.5, 4]}`}
	for _, c := range []struct {
		result, want string
		holds        bool
	}{
		{`8`, `{"result": 8}`, true},
		{`"8.0\n"`, `{"result": 8}`, true},
		{`{"result": 8}`, `{"result": 8}`, true},
		{`{"city": "Oslo", "humidity": 40}`, `{"result": 40}`, true},
		{`{"days": [{"a": 1}], "n": 1}`, `{"result": [{"a": 1.0}]}`, true},
		{`[{"sum": 140.5}]`, `{"result": 140.5}`, true},
		{`[8, 9]`, `{"result": 8}`, false},
		{`{"a": {"b": 8}, "c": 1}`, `{"result": 8}`, false},
		{`18`, `{"result": 8}`, false},
		{`{"found": true}`, `{"result": true}`, true},
		{`null`, `{"result": true}`, false},
		{`"The sum is 25."`, `{"contains": [25]}`, true},
		{`"The sum is 125."`, `{"contains": [25]}`, false},
		{`["- a.csv"]`, `{"contains": ["a.csv"], "lacks": ["b.csv"]}`, true},
		{`["a.csv", "b.csv"]`, `{"contains": ["a.csv"], "lacks": ["b.csv"]}`, false},
		{`[{"id": 2, "title": "x", "labels": ["a"]}]`, `{"contains": [{"id": 2, "labels": ["a"]}]}`, true},
		{`[{"id": 2}, {"title": "x"}]`, `{"contains": [{"id": 2, "title": "x"}]}`, false},
		{`null`, `{"files": {"total.txt": 61.75, "none.txt": null, "a.json": ["Bergen", 3.5]}}`, true},
		{`null`, `{"files": {"total.txt": null}}`, false},
		{`null`, `{"files": {"total.txt": 61}}`, false},
		{`null`, `{"files": {"none.txt": ["x"]}}`, false},
	} {
		var result any
		var w want
		if err := json.Unmarshal([]byte(c.result), &result); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(c.want), &w); err != nil {
			t.Fatal(err)
		}
		if w.holds(result, files) != c.holds {
			t.Errorf("%s holds for %s: %v, want %v", c.want, c.result, !c.holds, c.holds)
		}
	}
}
