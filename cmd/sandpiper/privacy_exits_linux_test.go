package main

import (
	"encoding/json"
	"fmt"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-mcp/sandpiper/internal/longtest"
	"github.com/sandpiper-mcp/sandpiper/internal/upstream/upstreamtest"
)

// exitCase is a way in which data reaches a client.
type exitCase struct {
	name string
	keys string          // of the corpus, if the case does not support all
	code string          // uses v, the corpus by key, and vals, its values as text; "" if only the client acts
	more []any           // arguments of execute_code, in pairs
	then func(*leakTest) // actions of the client afterwards
	form bool            // tokens map to values in another form, or with surrounding text
}

// begin precedes the code of a case.
const begin = `
import base64, os, shutil, sys, time, urllib.parse
from servers import people
for f in set(os.listdir()) - {"servers", "skills", "sessions"}: shutil.rmtree(f) if os.path.isdir(f) else os.remove(f)
v = people.records()
vals = [str(x) for x in v.values()]
`

// Keys whose values have one line, and keys whose values are valid file names.
const (
	oneLine   = textFiles + " url session wallet mac drivers_license social_security_number"
	textFiles = "email phone ssn ip api_key name card iban passport itin address"
)

var exits = []exitCase{
	{name: "result", code: `result = v`},
	{name: "last expression", code: `[v]`},
	{name: "values without keys", code: `result = vals`},
	{name: "keys", code: `result = {x: i for i, x in enumerate(vals)}`},
	{name: "JSON in JSON in JSON", form: true, code: `result = json.dumps({"rows": json.dumps([v])})`},
	{name: "repr", form: true, code: `result = repr(v)`},
	{name: "bytes", code: `result = [x.encode() for x in vals]`},
	{name: "bytes that are no text", form: true, code: `result = b"\xff" + " ".join(vals).encode()`},
	{name: "numbers", keys: "social_security_number card", code: `result = [v["social_security_number"], int(v["card"]), ` +
		`{int(v["card"]): 1}]`},
	{name: "decimals", keys: "social_security_number card", code: `result = [float(v["social_security_number"]), -int(v["card"])]`,
		form: true},
	{name: "prose", keys: "name email phone address", code: `result = f"Dear {v['name']}, we wrote to {v['email']}, called {v['phone']} ` +
		`and went to {v['address']}."`},
	{name: "rows of text", code: `print("|".join(vals)); print(";".join(vals)); result = "\t".join(vals) + "\n" + ",".join(f'"{x}"' for ` +
		`x in vals)`},
	{name: "other case", form: true, keys: "email name address iban mac",
		code: `result = [x.upper() for x in vals] + [x.lower() for x in vals]`},
	{name: "output", code: `for x in vals: print(x)`},
	{name: "output as it is", form: true, code: `print(v)`},
	{name: "output in halves", form: true, keys: oneLine, code: "for x in vals:\n    print(x[:len(x) // 2])\n    print(x[len(x) // " +
		"2:])\n    print('and')"},
	{name: "output in characters", form: true, keys: oneLine, code: "for x in vals:\n    for c in x: print(c)\n    print('and')"},
	{name: "output without ends of lines", form: true, keys: oneLine,
		code: "for x in vals:\n    for c in x: print(c, end='', flush=True)\n    print()"},
	{name: "output written", form: true, keys: oneLine, code: `for x in vals: sys.stdout.buffer.write(x.encode() + b"\n")`},
	{name: "error", code: `raise ValueError(" ".join(vals))`},
	{name: "error of a key", form: true, code: `{}[tuple(vals)]`},
	{name: "error behind an error", form: true, code: "try: raise ValueError(vals)\nexcept ValueError as e: raise " +
		"RuntimeError('no') from e"},
	{name: "notes of an error", code: "e = ValueError('no')\nfor x in vals: e.add_note(x)\nraise e"},
	{name: "group of errors", form: true, keys: textFiles, code: `raise ExceptionGroup("no", [ValueError(x) for x in vals])`},
	{name: "name of an error", keys: "email name", code: `raise type(" ".join(vals), (Exception,), {})()`},
	{name: "error of code in code", form: true, keys: oneLine, code: `exec("x = " + repr(vals) + " +")`},
	{name: "words of an exit", code: `sys.exit(" ".join(vals))`},
	{name: "standard error", code: "for x in vals: print(x, file=sys.stderr)\nraise SystemExit(3)"},
	{name: "time that is over", form: true, code: "print(vals)\nprint(vals, file=sys.stderr)\nwhile True: pass",
		more: []any{"timeout_seconds", 5}},
	{name: "error of a tool", code: `people.fail()`},
	{name: "error of a tool, caught", form: true, code: "try: people.fail()\nexcept ToolError as e:\n    print(e)\n    result = [e.args, " +
		"vars(e)]"},
	{name: "wrong argument", keys: "email", code: "try: people.strict(n=vals[0])\nexcept ToolError as e: " +
		"print(e)\npeople.strict(**{vals[0]: 1})"},
	{name: "file", form: true, code: `write_file("notes.json", json.dumps(v, indent=1)); result = list_files()`, then: (*leakTest).
		readAllFiles},
	{name: "file with escapes", form: true, keys: "name address email",
		code: `write_file("notes.json", json.dumps({k: x + " Ä" for k, x in v.items()}).replace("@", "\\u0040"))`, then: (*leakTest).
			readAllFiles},
	{name: "file that is no text", form: true, code: `open("a.bin", "wb").write(b"\xff" + "\n".join(vals).encode())`, then: (*leakTest).
		readAllFiles},
	{name: "file in pages", code: `write_file("notes.txt", "\n".join(vals))`, then: (*leakTest).readPages},
	{name: "names of files", form: true, keys: textFiles, code: "for x in vals: write_file(x + '/' + x + '.txt', x)\nresult = list_files()",
		then: (*leakTest).readAllFiles},
	{name: "no such file", form: true, keys: textFiles, code: `read_file(" ".join(vals))`},
	{name: "large result", code: `result = [v | {"n": i} for i in range(30)]`, then: (*leakTest).readAllFiles},
	{name: "large text", form: true, code: `result = " ".join(vals * 30)`, then: (*leakTest).readAllFiles},
	{name: "large object", form: true, code: `result = {x: [x] * 40 for x in vals}`, then: (*leakTest).readAllFiles},
	{name: "large output", code: `for i in range(40): print(*vals)`, then: (*leakTest).readAllFiles},
	{name: "large error", form: true, code: `raise ValueError("\n".join(vals * 30))`, then: (*leakTest).readAllFiles},
	{name: "skill", form: true, code: `save_skill("made", "# " + v["name"] + "\nDATA = " + repr(v), description=", ".join(x for x in ` +
		`vals if "\n" not in x))`, then: (*leakTest).readSkills},
	{name: "log of a session", form: true, code: "print(*vals)\ncheckpoint(1, v)\nresult = v", more: []any{"session_id", "logged"},
		then: (*leakTest).readSession},
	{name: "progress", keys: "email name phone ssn card", then: (*leakTest).awaitProgress},
	{name: "question", keys: "email name phone ssn card", code: `ask("Is this right: " + ", ".join(vals) + "?", {"title": v["name"], ` +
		`"description": v["phone"], "enum": [v["email"], v["ssn"], v["card"]]})`},
	{name: "question of a server", keys: "email name phone ssn card", code: `result = people.ask()`},
	{name: "picture with a caption", form: true, code: `picture = people.picture(); show(picture[1]); print(picture[0]); result = ` +
		`repr(picture)`},
	{name: "table", form: true, keys: textFiles, code: `show([v])`},
	{name: "type that was learned", keys: "email name iban", code: `people.by_key()`,
		then: func(l *leakTest) { l.call("get_tool_definition", map[string]any{"tool_name": "people.by_key"}) }},
	{name: "base64", form: true, code: `result = [base64.b64encode(x.encode()).decode() for x in vals]; print(base64.urlsafe_b64encode(" ` +
		`".join(vals).encode()))`},
	{name: "hexadecimal", form: true, code: `result = [x.encode().hex() for x in vals]; print(" ".join(vals).encode().hex().upper())`},
	{name: "URL encoding", form: true, code: `result = [urllib.parse.quote_plus(x) for x in vals]; print(urllib.parse.urlencode(v))`},
	{name: "HTML", form: true, keys: "email name address", code: `import html; result = ` +
		`"".join(f"<td>{html.escape(x)}</td>".replace("@", "&#64;") for x in vals)`},
	{name: "base64 in a file", form: true, code: `write_file("a.txt", base64.b64encode("\n".join(vals).encode()).decode())`,
		then: (*leakTest).readAllFiles},
	{name: "what the client sent", form: true, code: `result = vals`, then: (*leakTest).sendBack},
}

// leakTest is a client with its daemon and a server with private values.
type leakTest struct {
	*recordingClient
	script   string // of the server
	n        int    // of the corpus
	c        corpus
	r        execAnswer
	together strings.Builder // output received in parts, joined
}

func newLeakTest(t *testing.T, mode, version string) *leakTest {
	t.Helper()
	script := filepath.Join(t.TempDir(), "script")
	l := &leakTest{script: script}
	l.setValues(t, "")
	l.recordingClient = newRecordingClient(t, peopleConfig(t, script)+privacyConfig(mode), version, "--profile", "full")
	return l
}

// privacyConfig returns the configuration of a mode.
func privacyConfig(mode string) string {
	return map[string]string{
		"off":    "pii: {mode: off}\n",
		"egress": "pii: {mode: egress}\n",
		"strict": "pii: {mode: strict, flows: [{types: [" + strings.Join(allTypes, ", ") + "], to: people.*, decision: allow}]}\n",
	}[mode]
}

func peopleConfig(t *testing.T, script string) string {
	return fmt.Sprintf("servers:\n  people: {command: %s, env: {%s}}\n", upstreamtest.Command(t),
		strings.NewReplacer("map[", "", "]", "", ":", ": ").Replace(fmt.Sprint(upstreamtest.Env(script))))
}

// setValues gives the server a new corpus.
func (l *leakTest) setValues(t *testing.T, keys string) {
	t.Helper()
	l.n++
	l.c = newCorpus(t, l.n).only(keys)
	text, byKey := l.c.lines(), map[string]int{}
	for _, v := range l.c {
		byKey[fmt.Sprint(v)] = 1
	}
	answer := func(parts ...any) json.RawMessage { return asJSON(map[string]any{"content": parts}) }
	part := func(text string) any { return map[string]any{"type": "text", "text": text} }
	upstreamtest.Write(t, l.script, upstreamtest.Script{
		Tools: peopleTools(),
		Answers: map[string]json.RawMessage{
			"call records": answer(part(l.c.json())), "call by_key": answer(part(string(asJSON(byKey)))),
			"call record": answer(part("done")), "call strict": answer(part("done")),
			"call fail":    asJSON(map[string]any{"isError": true, "content": []any{part("no: " + text)}}),
			"call picture": answer(part(text), map[string]any{"type": "image", "mimeType": "image/png", "data": onePixel}),
		},
		Questions: []json.RawMessage{asJSON(map[string]any{"message": text,
			"requestedSchema": map[string]any{"type": "object", "properties": map[string]any{
				"a": map[string]any{"type": "string", "title": l.c["name"], "description": l.c["phone"], "default": l.c["email"]},
				"b": map[string]any{"type": "string", "enum": []any{l.c["ssn"], l.c["card"]}},
			}}})},
	})
}

const onePixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAASUVORK5CYII="

func peopleTools() (all []json.RawMessage) {
	for _, name := range []string{"records", "fail", "picture", "ask", "by_key"} {
		all = append(all, asJSON(map[string]any{"name": name, "inputSchema": map[string]any{"type": "object"}}))
	}
	return append(all, json.RawMessage(`{"name":"record","inputSchema":{"type":"object","properties":{"value":{}}}}`),
		json.RawMessage(`{"name":"strict","inputSchema":{"type":"object","properties":{"n":{"type":"integer"}},"additionalProperties":false}}`))
}

func asJSON(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}

// runs runs a case and returns the bytes sent to the client.
func (l *leakTest) runs(x exitCase) string {
	l.together.Reset()
	l.newOutput()
	if x.code != "" {
		l.r = l.execute(begin+x.code, x.more...)
		l.together.WriteString(strings.Join(l.r.Output, "") + "\x00" + strings.Join(l.r.Output, "\n"))
	}
	if x.then != nil {
		x.then(l)
	}
	return l.newOutput() + "\x00" + l.together.String()
}

// readAllFiles reads all files of the workspace, with each tool.
func (l *leakTest) readAllFiles() {
	var list struct {
		Files     []string
		Resources []struct{ URI string }
	}
	l.decode(l.call("list_workspace_files", map[string]any{}), &list)
	l.call("list_workspace_files", map[string]any{"subpath": ".results"})
	l.call("get_execution_stats", map[string]any{})
	for _, name := range append(list.Files, l.r.file()) {
		l.call("read_workspace_file", map[string]any{"filename": name})
	}
	l.decode(l.request("resources/list", map[string]any{}), &struct{ Result any }{&list})
	for _, r := range list.Resources {
		l.request("resources/read", map[string]any{"uri": r.URI})
	}
}

// file returns the file of a result that was too large to return, "none" otherwise.
func (r execAnswer) file() string {
	if m := regexp.MustCompile(`/workspace/(\.results/[^"'\\]+)`).FindStringSubmatch(r.raw); m != nil {
		return m[1]
	}
	return "none"
}

func (l *leakTest) decode(text string, v any) {
	l.t.Helper()
	if err := json.Unmarshal([]byte(text), v); err != nil {
		l.t.Fatalf("%v in %s", err, text)
	}
}

// readPages reads a file in pages and joins them.
func (l *leakTest) readPages() {
	for next := int64(0); ; {
		var page struct {
			Content string
			Next    int64 `json:"next_offset"`
		}
		l.decode(l.call("read_workspace_file", map[string]any{"filename": "notes.txt", "offset": next, "limit": 31}), &page)
		l.together.WriteString(page.Content)
		if next = page.Next; next == 0 {
			return
		}
	}
}

func (l *leakTest) readSkills() {
	l.call("load_skill", map[string]any{"name": "made"})
	l.call("list_skills", map[string]any{})
	l.call("read_workspace_file", map[string]any{"filename": "skills/made.py"})
	l.request("resources/read", map[string]any{"uri": "skill://made"})
	l.request("resources/list", map[string]any{})
	l.execute("print(load_skill('made'), list_skills())\nfrom skills import made\nresult = made.DATA")
	l.call("delete_skill", map[string]any{"name": "made"})
}

func (l *leakTest) readSession() {
	for _, name := range []string{"logged", "current_session"} {
		l.call("read_workspace_file", map[string]any{"filename": "sessions/" + name + ".json"})
	}
	l.execute("result = [v, open('/workspace/sessions/logged.json').read()[:8000]]", "session_id", "logged")
}

// awaitProgress lets the code end after a progress message.
func (l *leakTest) awaitProgress() {
	running := l.send("tools/call", map[string]any{"name": "execute_code", "arguments": map[string]any{"timeout_seconds": 120,
		"code": begin + "while not os.path.exists('heard'):\n    progress(1, 1, ' '.join(vals))\n    time.sleep(0.01)"}})
	for l.out.Scan() && !strings.Contains(l.out.Text(), "notifications/progress") {
		if strings.Contains(l.out.Text(), fmt.Sprintf(`"id":%d,`, running)) {
			l.t.Fatalf("the code has ended: %s", l.out.Text())
		}
	}
	l.await(l.send("tools/call", map[string]any{"name": "write_workspace_file",
		"arguments": map[string]any{"filename": "heard", "content": "yes"}}), running)
}

// sendBack sends the shown values as arguments that errors are likely to quote.
func (l *leakTest) sendBack() {
	var shown []string
	l.decode(string(l.r.Result), &shown)
	for i, s := range shown {
		for tool, arg := range map[string]string{"read_workspace_file": "filename", "load_skill": "name", "search_tools": "query",
			"get_tool_definition":  "tool_name",
			"list_workspace_files": "subpath", "get_server_tools": "server_name", "resume_execution": "execution_id"} {
			if i%3 == 0 {
				l.call(tool, map[string]any{arg: s})
			}
		}
		l.request("resources/read", map[string]any{"uri": "workspace://" + url.PathEscape(s)})
	}
	list := string(asJSON(shown))
	l.execute("from servers.people import strict\nstrict(n=" + string(asJSON(shown[0])) + ")")
	l.execute("raise ValueError(" + list + ")")
	l.execute("raise ValueError(sent)", "context_vars", map[string]any{"sent": shown})
	l.execute("result = {k: 1 for k in sent} | {'file': write_file("+string(asJSON(shown[0]+".txt"))+", str(sent))}", "context_vars",
		map[string]any{"sent": shown})
	l.call("write_workspace_file", map[string]any{"filename": "sent.txt", "content": list})
	l.call("save_skill", map[string]any{"name": "sent", "code": "DATA = " + list, "description": shown[0]})
	l.call("load_skill", map[string]any{"name": "sent"})
	l.call("save_skill", map[string]any{"name": shown[0], "code": "DATA = 1"})
	l.readAllFiles()
}

// TestPrivateValuesDoNotReachClient sends values of every type through every exit and searches
// every byte sent to the client for them. With privacy off, each value must be found, which
// validates the test.
func TestPrivateValuesDoNotReachClient(t *testing.T) {
	longtest.SkipSlow(t)
	t.Parallel()
	needSandbox(t)
	for _, c := range longtest.Rows([]struct{ mode, version, only string }{
		{"off", "2025-11-25", ""}, {"egress", "2025-11-25", ""}, {"egress", "2026-07-28", ""}, {"strict", "2026-07-28", ""},
		{"off", withoutForms, "question"}, {"egress", withoutForms, "question"}, {"strict", withoutForms, "question"},
	}, 2) {
		t.Run(c.mode+" "+c.version, func(t *testing.T) {
			t.Parallel()
			l := newLeakTest(t, c.mode, c.version)
			for _, x := range exits {
				if !strings.HasPrefix(x.name, c.only) {
					continue
				}
				t.Run(x.name, func(t *testing.T) {
					l.t = t
					l.setValues(t, x.keys)
					heard := l.runs(x)
					found := leaks(heard, l.c.secrets())
					switch {
					case c.mode != "off" && len(found) > 0:
						t.Errorf("the client was sent %q", found)
					case c.mode == "off" && len(found) < len(l.c):
						t.Errorf("the client was sent %d of %d values; not these: %q", len(found), len(l.c), l.missing(found))
					case c.mode == "egress" || c.mode == "strict" && !x.form:
						l.returns(tokensIn(heard), x.form, c.mode == "strict")
					}
				})
			}
		})
	}
}

// returns sends all tokens shown to the client back to a server, and checks that each is
// restored, exactly or in some form, and that none is missing. In mode strict the code may
// have changed a token, which is then invalid.
func (l *leakTest) returns(tokens []string, form, strict bool) {
	l.t.Helper()
	constants, variables := l.sends("", tokens...)
	if d := cmp.Diff(constants, variables); d != "" || len(constants) != len(tokens) {
		l.t.Fatalf("%d tokens came back as %d values; from constants and variables (-constants +variables):\n%s", len(tokens),
			len(constants), d)
	}
	secrets := l.c.secrets()
	for i, value := range constants {
		cut := slices.ContainsFunc(secrets, func(s string) bool { return len(value) >= 5 && strings.Contains(s, unescaped(value)) })
		if exactly := slices.Contains(secrets, value); !exactly && (!form || !cut && len(leaks(value, secrets)) == 0) {
			l.t.Errorf("%s came back as %q", tokens[i], value)
		}
	}
	if found := leaks(strings.Join(constants, "\x00"), secrets); !form && !strict && len(found) < len(secrets) {
		l.t.Errorf("no token was shown for %q", l.missing(found))
	}
}

// missing returns the values that were not found.
func (l *leakTest) missing(found []string) (all []string) {
	for _, s := range l.c.secrets() {
		if !slices.ContainsFunc(found, func(f string) bool { return strings.HasPrefix(f, fmt.Sprintf("%q", s)) }) {
			all = append(all, s)
		}
	}
	return all
}
