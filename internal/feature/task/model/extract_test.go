package model

import (
	"strings"
	"testing"
)

func TestExtract(t *testing.T) {
	fence := func(language, code string) string { return "```" + language + "\n" + code + "\n```\n" }
	for name, c := range map[string]struct{ text, code, search, why string }{
		"fenced":             {text: fence("python", "result = 5"), code: "result = 5\n"},
		"without a language": {text: fence("", "result = 5"), code: "result = 5\n"},
		"another name":       {text: fence("Python3", "result = 5"), code: "result = 5\n"},
		"attributes":         {text: fence("{.python title=\"x\"}", "result = 5"), code: "result = 5\n"},
		"prose around it": {text: "Here is the program:\n\n" + fence("python", "x = 1\nresult = x") + "\nIt returns 1.",
			code: "x = 1\nresult = x\n"},
		"Windows line ends": {text: "```python\r\nresult = 5\r\n```\r\n", code: "result = 5\n"},
		"in a list": {text: "1. Do this:\n   ```python\n   if 1:\n       result = 5\n   ```\n",
			code: "if 1:\n    result = 5\n"},
		"tildes":         {text: "~~~python\nresult = '''\n```\n'''\n~~~\n", code: "result = '''\n```\n'''\n"},
		"a longer fence": {text: "````python\nresult = '''\n```\n'''\n````\n", code: "result = '''\n```\n'''\n"},
		"a draft and its revision": {text: fence("python", "result = 1") + "That is wrong. Better:\n" + fence("python", "result = 2"),
			code: "result = 2\n"},
		"output below":               {text: fence("python", "result = 1") + "Output:\n" + fence("", "1"), code: "result = 1\n"},
		"output below without names": {text: fence("", "result = 1") + "Output:\n" + fence("", "1"), code: "result = 1\n"},
		"an explanation below": {text: fence("python", "result = 1") + "A line of it:\n" + fence("python", "print(1)"),
			code: "result = 1\n"},
		"another language": {text: fence("bash", "pip install x") + fence("python", "result = 1") + fence("json", `{"result": 1}`),
			code: "result = 1\n"},
		"without result": {text: fence("python", "print(1)"), code: "print(1)\n"},
		"thoughts": {text: "<think>maybe\n```python\nresult = 0\n</think>\n" + fence("python", "result = 1"),
			code: "result = 1\n"},
		"without a fence":        {text: "from servers.a import b\nresult = b()", code: "from servers.a import b\nresult = b()\n"},
		"a search":               {text: "SEARCH: send mail\n", search: "send mail"},
		"a search in prose":      {text: "No tool sends mail.\n\n**SEARCH: send mail**", search: "send mail"},
		"a search and a program": {text: "SEARCH: x\n" + fence("python", "result = 1"), code: "result = 1\n"},
		"a long search": {text: "SEARCH: " + strings.Repeat("x", 1000),
			search: strings.Repeat("x", 100) + " […] " + strings.Repeat("x", 100)},
		"an empty search":        {text: "SEARCH:  ", why: "no Python code block"},
		"unclosed":               {text: "```python\nresult = 1\nprint(", why: "ends inside a code block"},
		"unclosed below a draft": {text: fence("python", "result = 1") + "Better:\n```python\nresult = ", why: "ends inside a code block"},
		"an empty block":         {text: fence("python", " "), why: "no Python code block"},
		"another language only":  {text: fence("bash", "result = 1"), why: "no Python code block"},
		"prose":                  {text: "I cannot do that. The result = unknown.", why: "no Python code block"},
		"empty":                  {text: " \n", why: "empty"},
		"1 MB of prose":          {text: strings.Repeat("the result is a number ", 1<<20/23), why: "no Python code block"},
		"1 MB of fences":         {text: strings.Repeat("```\n", 1<<18), why: "no Python code block"},
		"1 MB of equals signs":   {text: strings.Repeat("result:", 1<<20/7), why: "no Python code block"},
		"1 MB of code": {text: fence("python", "result = '"+strings.Repeat("x", 1<<20)+"'"),
			code: "result = '" + strings.Repeat("x", 1<<20) + "'\n"},
	} {
		code, search, why := extract(c.text)
		if code != c.code || search != c.search || !strings.Contains(why, c.why) || (why == "") != (c.why == "") {
			t.Errorf("%s: code %.200q, search %q, why %q", name, code, search, why)
		}
	}
}

// FuzzExtract tests that an extracted program is returned unchanged if a model repeats it.
func FuzzExtract(f *testing.F) {
	for _, seed := range []string{"```python\nresult = 1\n```", "x\n````py\na\n```\nb\n````\n```\nresult=2\n```", "result = 1",
		" ~~~\n\tx\n ~~~", "SEARCH: a", "<think></think>```\n```"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		code, search, why := extract(text)
		if n := count(code != "", search != "", why != ""); n != 1 {
			t.Fatalf("code %q, search %q, why %q", code, search, why)
		}
		if code == "" {
			return
		}
		again, _, why := extract("The program:\n" + strings.Replace(fenced(strings.TrimSuffix(code, "\n")), "\n", "python\n",
			1) + "\nIt was checked.")
		if again != code {
			t.Errorf("%q became %q (%s)", code, again, why)
		}
	})
}

func count(all ...bool) (n int) {
	for _, b := range all {
		if b {
			n++
		}
	}
	return n
}
