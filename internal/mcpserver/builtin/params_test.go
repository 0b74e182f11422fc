package builtin

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/fault"
)

var sample = []Param{
	{Name: "code", Kind: Text, Description: "Python", Required: true},
	{Name: "timeout_seconds", Kind: Number, Default: 30},
	{Name: "memory_mb", Kind: Integer, Default: 500},
	{Name: "context_vars", Kind: Object},
	{Name: "tags", Kind: Texts},
	{Name: "encoding", Kind: Text, Values: []string{"utf-8", "base64"}},
	{Name: "of", Kind: TextOrTexts},
}

func TestSchemaIsOrdered(t *testing.T) {
	want := `{"type":"object","properties":{` +
		`"code":{"type":"string","description":"Python"},` +
		`"timeout_seconds":{"type":"number","default":30},` +
		`"memory_mb":{"type":"integer","default":500},` +
		`"context_vars":{"type":"object"},` +
		`"tags":{"type":"array","items":{"type":"string"}},` +
		`"encoding":{"type":"string","enum":["utf-8","base64"]},` +
		`"of":{"type":["string","array"],"items":{"type":"string"}}},` +
		`"required":["code"]}`
	if d := cmp.Diff(want, string(Schema(sample))); d != "" {
		t.Error(d)
	}
	if got := string(Schema(nil)); got != `{"type":"object"}` {
		t.Errorf("schema(nil) = %s", got)
	}
}

func TestInvalidRequestsReturnError(t *testing.T) {
	for args, want := range map[string]string{
		``:                               `run needs code, a string`,
		`{}`:                             `run needs code, a string`,
		`{"code":null}`:                  `run needs code, a string`,
		`{"code":3}`:                     `run: code must be a string, not 3`,
		`{"code":["a"]}`:                 `run: code must be a string, not the array ["a"]`,
		`[]`:                             `the arguments of run must be an object, not the array []`,
		`"x"`:                            `the arguments of run must be an object, not the string "x"`,
		`{"code":"","Code":""}`:          `run has no parameter "Code"; did you mean code?`,
		`{"code":"","timeout":3}`:        `run has no parameter "timeout"; did you mean timeout_seconds?`,
		`{"code":"","timeoutSeconds":3}`: `run has no parameter "timeoutSeconds"; did you mean timeout_seconds?`,
		`{"code":"","memory":3}`:         `run has no parameter "memory"; did you mean memory_mb?`,
		`{"code":"","zzz":3}`: `run has no parameter "zzz"; it takes code, timeout_seconds, memory_mb, context_vars, ` +
			`tags, encoding, of`,
		`{"code":"","code":""}`:              `run was given "code" twice`,
		`{"code":"","timeout_seconds":"x"}`:  `run: timeout_seconds must be a number, not the string "x"`,
		`{"code":"","memory_mb":1.5}`:        `run: memory_mb must be an integer, not 1.5`,
		`{"code":"","memory_mb":true}`:       `run: memory_mb must be an integer, not true`,
		`{"code":"","timeout_seconds":""}`:   `run: timeout_seconds must be a number, not the string ""`,
		`{"code":"","memory_mb":"1.5"}`:      `run: memory_mb must be an integer, not the string "1.5"`,
		`{"code":"","context_vars":"{a:1}"}`: `run: context_vars must be an object, not the string "{a:1}"`,
		`{"code":"","context_vars":"[1]"}`:   `run: context_vars must be an object, not the string "[1]"`,
		`{"code":"","context_vars":"null"}`:  `run: context_vars must be an object, not the string "null"`,
		`{"code":"","context_vars":[1]}`:     `run: context_vars must be an object, not the array [1]`,
		`{"code":"","tags":"a"}`:             `run: tags must be an array of strings, not the string "a"`,
		`{"code":"","tags":["a",null]}`:      `run: tags must be an array of strings, not the array ["a",null]`,
		`{"code":"","encoding":"latin1"}`:    `run: encoding must be one of utf-8, base64, not the string "latin1"`,
		`{"code":"","of":{}}`:                `run: of must be a string or an array of strings, not the object {}`,
		`{"code":"","of":["a",1]}`:           `run: of must be a string or an array of strings, not the array ["a",1]`,
		`{"code":"","tags":"` + strings.Repeat("a", 500) + `"}`: `run: tags must be an array of strings, not the string "` +
			strings.Repeat("a", 59) + `…`,
	} {
		_, err := Decode("run", sample, json.RawMessage(args), &struct{}{})
		if err == nil || fault.KindOf(err) != fault.Invalid || fault.Sentence(err) != want {
			t.Errorf("%.80s\n got %v\nwant %s", args, err, want)
		}
	}
}

func TestDecodeArguments(t *testing.T) {
	var got struct {
		Code    string          `json:"code"`
		Timeout float64         `json:"timeout_seconds"`
		Memory  float64         `json:"memory_mb"`
		Vars    json.RawMessage `json:"context_vars"`
		Tags    []string        `json:"tags"`
	}
	want := got
	got.Timeout = 30
	want.Code, want.Timeout, want.Memory, want.Tags = "1+1", 30, 500, []string{"a"}
	want.Vars = json.RawMessage(`{"a": 1}`)
	args := `{"code":"1+1","timeout_seconds":null,"memory_mb":500.0,"context_vars":{"a": 1},"tags":["a"]}`
	note, err := Decode("run", sample, json.RawMessage(args), &got)
	if err != nil || note != "" {
		t.Fatal(note, err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestDecodeStringsOfOtherKinds(t *testing.T) {
	var got struct {
		Code    string          `json:"code"`
		Timeout float64         `json:"timeout_seconds"`
		Memory  int             `json:"memory_mb"`
		Vars    json.RawMessage `json:"context_vars"`
		Tags    []string        `json:"tags"`
		Dry     bool            `json:"dry_run"`
	}
	want := got
	want.Code, want.Timeout, want.Memory, want.Tags, want.Dry = `"1"`, 5.5, 300, []string{"a"}, true
	want.Vars = json.RawMessage(`{"a": "1"}`)
	args := `{"code":"\"1\"","timeout_seconds":"5.5","memory_mb":" 300 ","context_vars":"{\"a\": \"1\"}","tags":"[\"a\"]","dry_run":"True"}`
	note, err := Decode("run", append(sample, Param{Name: "dry_run", Kind: Boolean}), json.RawMessage(args), &got)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	const wantNote = "timeout_seconds was a string; send a number; memory_mb was a string; send an integer; context_vars was a string; " +
		"send an object; " +
		"tags was a string; send an array of strings; dry_run was a string; send a boolean"
	if note != wantNote {
		t.Errorf("note %q, want %q", note, wantNote)
	}
}
